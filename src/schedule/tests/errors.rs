//! What is refused, where the error points, and what it says to write instead.

use super::Schedule;
use super::Zone;

/// Text; the part that is underlined; words of the message; words of the hint.
type Row = (&'static str, &'static str, &'static str, &'static str);

const REFUSED: &[Row] = &[
    ("", "", "empty", "five fields"),
    ("   ", "", "empty", "five fields"),
    ("* * * *", "* * * *", "4 fields are too few", "minute hour"),
    ("*", "*", "1 field is too few", "six with seconds first"),
    ("30s", "30s", "too few", "`@every 30s`"),
    ("daily", "daily", "too few", "`@daily`"),
    ("every 5 minutes", "every 5 minutes", "too few", "`@every 5m`"),
    ("rate(5 minutes)", "rate(5 minutes)", "EventBridge", "write `@every 5m`"),
    ("rate(often)", "rate(often)", "EventBridge", "write five fields"),
    ("cron(0 10 * * ? *)", "cron(0 10 * * ? *)", "EventBridge", "write `0 10 * * ?`"),
    ("cron(0 10 ? * MON-FRI *)", "cron(0 10 ? * MON-FRI *)", "EventBridge", "write `0 10 ? * MON-FRI`"),
    ("cron(0 10 ? * 2-6 *)", "cron(0 10 ? * 2-6 *)", "EventBridge", "weekdays from Sunday = 0"),
    ("cron(0 10 * * ? 2027)", "cron(0 10 * * ? 2027)", "EventBridge", "without a year"),
    ("*-*-* 02:30:00", "*-*-* 02:30:00", "systemd", "write `30 2 * * *`"),
    ("Mon *-*-01 02:30", "Mon *-*-01 02:30", "systemd", "write five fields"),
    ("1/4294967297 * * * *", "4294967297", "step 4294967297 is larger", "from 1 to 59"),
    ("0 0 1-L * *", "1-L", "not a range", "write `1-31`"),
    ("0 0 28-L * *", "28-L", "not a range", "write `28-31`"),
    ("0 0 12 * * ? 2026", "2026", "7 fields", "none for the year"),
    ("0 2 * * * root /bin/true -x", "root /bin/true -x", "no part of a schedule", "put the command into `command`"),
    ("* * * * * 9", "9", "day-of-week 9", "of six fields the first is seconds"),
    ("61 * * * *", "61", "minute 61 is outside 0-59", "from 0 to 59"),
    ("60 * * * *", "60", "minute 60", "write `0`"),
    ("0 24 * * *", "24", "hour 24 is outside 0-23", "midnight is hour 0"),
    ("0 0 0 * *", "0", "day-of-month 0 is outside 1-31", "from 1 to 31"),
    ("0 0 1 13 *", "13", "month 13 is outside 1-12", "from 1 to 12"),
    ("0 0 * * 8", "8", "day-of-week 8 is outside 0-7", "0 and 7 are Sunday"),
    ("99999999999999999999 * * * *", "99999999999999999999", "outside 0-59", ""),
    ("5 22-5 * * *", "22-5", "hour range `22-5` runs backwards", "write `22-23,0-5`"),
    ("5 23-0 * * *", "23-0", "runs backwards", "write `23,0`"),
    ("0 0 25-5 * *", "25-5", "runs backwards", "write `25-31,1-5`"),
    ("0 8 * * fri-mon", "fri-mon", "runs backwards", "write `FRI-SAT,SUN-MON`"),
    ("0 8 * * 7-2", "7-2", "runs backwards", "write `0-2`"),
    ("0 8 * * 5-0", "5-0", "runs backwards", "write `5-7`"),
    ("*/0 * * * *", "0", "step 0", "from 1 to 59"),
    ("0 15/0 * * *", "0", "step 0", "from 1 to 23"),
    ("*/90 * * * *", "90", "step 90 is larger than the minute field", "`@every 90m`"),
    ("0 0 */40 * *", "40", "larger than the day-of-month field", "`@every 40d`, which is counted in UTC"),
    ("0 0 1 5/13 *", "13", "larger than the month field", "from 1 to 12"),
    ("*/15garbage * * * *", "15garbage", "not a step", "from 1 to 59"),
    ("*/ * * * *", "", "a number is missing after `/`", "from 1 to 59"),
    ("*/5/2 * * * *", "5/2", "not a step", ""),
    ("**/5 * * * *", "**", "not a range", "one is enough: write `*`"),
    ("*5 * * * *", "*5", "not a range", "write `*/5` for a step or write `5`"),
    ("** * * * *", "**", "not a range", "one is enough: write `*`"),
    ("1,,2 * * * *", ",", "empty item", "remove the extra comma"),
    ("1, * * * *", ",", "empty item", "remove"),
    ("0 ,1 * * *", ",", "empty item", "remove"),
    ("5x * * * *", "5x", "minute `5x` is not a number", "from 0 to 59"),
    ("+1 * * * *", "+1", "not a number", ""),
    ("-5 * * * *", "", "a number is missing", ""),
    ("5- * * * *", "", "a number is missing", ""),
    ("1-2-3 * * * *", "1-2-3", "not a range", "two ends"),
    ("0~30 * * * *", "0~30", "not a number", "`H(0-29)`"),
    ("0 0 * * Monday", "Monday", "not a number or name", "write `MON`"),
    ("0 0 * march *", "march", "not a number or name", "write `MAR`"),
    ("0 0 * * XYZ", "XYZ", "not a number or name", "a name as `SUN`"),
    ("0 0 31 2 *", "0 0 31 2 *", "never fires", "last day of a month write `0 0 L 2 *`"),
    ("0 0 0 30 2 *", "0 0 0 30 2 *", "never fires", ""),
    ("0 0 31W 4,6,9,11 *", "0 0 31W 4,6,9,11 *", "never fires", "last workday of a month write `0 0 LW 4,6,9,11 *`"),
    (
        "0 0 31W 4 */7",
        "0 0 31W 4 */7",
        "never fires",
        "last workday of a month, whatever its weekday, write `0 0 LW 4 *`",
    ),
    (
        "0 0 31W 9,12 */7",
        "0 0 31W 9,12 */7",
        "never fires",
        "the day-of-week field begins with `*`, so both day fields must match, and no day of the chosen months is both \
         `31W` and `*/7`; for one of the two write `0 0 31W 9,12 *` or write `0 0 * 9,12 */7`; for days that either names \
         write `0 0 31W 9,12 0`",
    ),
    (
        "0 0 */16 * FRI#2",
        "0 0 */16 * FRI#2",
        "never fires",
        "the day-of-month field begins with `*`, so both day fields must match, and no day is both `*/16` and `FRI#2`; for \
         one of the two write `0 0 */16 * *` or write `0 0 * * FRI#2`; for days that either names write `0 0 1,17 * FRI#2`",
    ),
    ("0 0 0 ?/31 2 MON#2", "0 0 0 ?/31 2 MON#2", "never fires", "begins with `?`, so both day fields must match"),
    ("0 0 */30 2 SUN#5", "0 0 */30 2 SUN#5", "never fires", "no day of the chosen months is both `*/30` and `SUN#5`"),
    ("0 0 */31 2 FRIL", "0 0 */31 2 FRIL", "never fires", "for days that either names write `0 0 1 2 FRIL`"),
    ("L * * * *", "L", "stands in the minute field", "two day fields"),
    ("0 0 5L * *", "5L", "day-of-month `5L`", "day-of-week field"),
    ("0 0 L-0 * *", "L-0", "the last day itself", "write `L`"),
    ("0 0 L-00,15 * *", "L-00", "the last day itself", "write `L`"),
    (
        "0 0 * * SUN-SUN",
        "SUN-SUN",
        "from Sunday to Sunday",
        "for Sundays write `SUN`, for all days of the week write `SUN-SAT`",
    ),
    ("0 0 * * 0-sun", "0-sun", "from Sunday to Sunday", "write `SUN-SAT`"),
    ("0 0 * * SUN-7", "SUN-7", "from Sunday to Sunday", "write `SUN-SAT`"),
    ("0 0 * * 7-SUN", "7-SUN", "from Sunday to Sunday", "for Sundays write `SUN`"),
    ("0 0 * * SUN-0", "SUN-0", "from Sunday to Sunday", "for Sundays write `SUN`"),
    ("0 0 * * MON,Sunday-Sunday", "Sunday-Sunday", "from Sunday to Sunday", "for Sundays write `SUN`"),
    ("0 0 * * SUN-SUN/2", "SUN-SUN", "from Sunday to Sunday", "for all days of the week write `SUN-SAT`"),
    ("0 0 * * H(SUN-SUN)", "SUN-SUN", "from Sunday to Sunday", "for all days of the week write `SUN-SAT`"),
    ("0 0 * * SUN-8", "SUN-8", "day-of-week 8", "write `SUN-SAT`"),
    ("0 0 L-31 * *", "L-31", "before the last", "write `L-1` up to `L-30`"),
    ("0 0 * * L", "L", "no weekday", "`5L`"),
    ("0 0 * * 15W", "15W", "day-of-week field", "day-of-month field"),
    ("0 0 * * 5#6", "5#6", "does not count", "write `5#1` up to `5#5`"),
    ("H(0) * * * *", "H(0)", "not a form of `H`", "`H(0-59)`"),
    ("H(30-70) * * * *", "30-70", "minute 70 is outside 0-59", "write `30-59`"),
    ("CRON_TZ=Europe/Berlin 0 2 * * *", "CRON_TZ=Europe/Berlin", "a zone stands inside", "`timeZone: Europe/Berlin`"),
];

const REFUSED_WORDS: &[Row] = &[
    ("TZ=UTC @daily", "TZ=UTC", "a zone stands inside", "`timeZone: UTC`"),
    ("@reboot", "@reboot", "no instant", "@every 1h"),
    ("@dayly", "@dayly", "not a known name", "@daily"),
    ("@daily x", "x", "stands after `@daily`", "remove it"),
    ("@every", "", "needs a distance", "@every 90s"),
    ("@every5m", "@every5m", "not a known name", "`@every 5m`"),
    ("@every 500ms", "500ms", "whole seconds", "`@every 1s`"),
    ("@every 1s500ms", "500ms", "whole seconds", "`@every 1s`"),
    ("@every 90", "90", "no unit", "`@every 90s`"),
    ("@every 1.5h", "1.5h", "not a distance", "`@every 1h30m`"),
    ("@every 1w", "1w", "not a distance", "write `@every 7d`"),
    ("@every -5m", "-5m", "not a distance", ""),
    ("@every 1h 30m", "1h 30m", "more than one word", "`@every 1h30m`"),
    ("@every 0s", "0s", "never move on", "`@every 1s`"),
    ("@every 1h2h", "1h2h", "from large to small, each once", "for their sum write `@every 3h`"),
    ("@every 1m1m", "1m1m", "from large to small, each once", "for their sum write `@every 2m`"),
    ("@every 30m1h", "30m1h", "from large to small, each once", "for their sum write `@every 1h30m`"),
    ("@every 1h,2h", "1h,2h", "not a distance", "several schedules are a list: [\"@every 1h\", \"@every 2h\"]"),
    ("@every 5m,10m", "5m,10m", "not a distance", "a list: [\"@every 5m\", \"@every 10m\"]"),
    ("@every 5m, 10m", "5m, 10m", "more than one word", "a list: [\"@every 5m\", \"@every 10m\"]"),
    ("@every 1h,@every 2h", "1h,@every 2h", "more than one word", "a list: [\"@every 1h\", \"@every 2h\"]"),
    (
        "@every 1h,30m",
        "1h,30m",
        "not a distance",
        "for one distance write `@every 1h30m`; several schedules are a list",
    ),
    ("@every 1h,x", "1h,x", "not a distance", "as in `@every 1h30m`"),
    ("@every 1,2h", "1,2h", "not a distance", "as in `@every 1h30m`"),
    ("@every1h,2h", "@every1h,2h", "not a known name", "a list: [\"@every 1h\", \"@every 2h\"]"),
    ("every 5m, 10m", "every 5m, 10m", "too few", "a list: [\"@every 5m\", \"@every 10m\"]"),
    ("1h,2h", "1h,2h", "too few", "a list: [\"@every 1h\", \"@every 2h\"]"),
    (
        "rate(5 minutes, 10 minutes)",
        "rate(5 minutes, 10 minutes)",
        "EventBridge",
        "a list: [\"@every 5m\", \"@every 10m\"]",
    ),
    ("@every PT5M", "PT5M", "not a distance", "write `@every 5m`"),
    ("@every 400d", "400d", "longer than 366d", "five fields"),
    ("@every 99999999999999999999h", "99999999999999999999h", "longer than", ""),
    ("0 2 * *\n* ", "\n", "line break", "as one line: write `0 2 * * *`"),
    ("0 2 * *\r\nx ", "\r", "line break", "one line; several are a list of texts"),
    ("0 2 * *\nü ", "\n", "line break", "one line; several are a list of texts"),
    (
        "0 9 * * MON-FRI\n\n0 10 * * SAT\n",
        "\n",
        "line break",
        "several are a list: [\"0 9 * * MON-FRI\", \"0 10 * * SAT\"]",
    ),
    ("@daily\n0 99 * * *", "\n", "line break", "several are a list of texts: `[\"0 9"),
    ("0\u{a0}2 * * *", "\u{a0}", "another kind", "ordinary blank"),
];

/// What people bring along from other tools, from English, or from a slip of the hand.
const REFUSED_HABITS: &[Row] = &[
    // A blank inside a list would be a sixth field.
    ("0 9 * * 1-5, 7", ", ", "a blank stands inside a list", "after the comma: write `0 9 * * 1-5,7`"),
    ("0 9 * * 1-5 ,7", " ,", "a blank stands inside a list", "before the comma: write `0 9 * * 1-5,7`"),
    ("0 0 9 * * 1, 3, 5", ", ", "a blank stands inside a list", "write `0 0 9 * * 1,3,5`"),
    ("0 9 * * 1, 99", ", ", "a blank stands inside a list", "remove the blank after the comma"),
    ("0 9 * * 1-5,", ",", "empty item", "remove the extra comma"),
    ("0 1, * * * *", ",", "minute field has an empty item", "remove the extra comma"),
    ("1,, 2 * * * *", ", ", "a blank stands inside a list", "remove the blank"),
    ("1,,2 0 2 * * *", ",", "the seconds field has an empty item", "remove the extra comma"),
    ("*/0 0 2 * * *", "0", "step 0 in the seconds field", "from 1 to 59"),
    ("L 0 2 * * *", "L", "stands in the seconds field", "two day fields"),
    // Ranges that run backwards keep their meaning.
    ("0 22-6/2 * * *", "22-6/2", "runs backwards", "write `22,0,2,4,6`"),
    ("0 22-6/1 * * *", "22-6/1", "runs backwards", "write `22-23,0-6`"),
    ("0 0 * * FRI-TUE/2", "FRI-TUE/2", "runs backwards", "write `FRI,SUN,TUE`"),
    ("0 0 1 NOV-FEB *", "NOV-FEB", "runs backwards", "write `NOV-DEC,JAN-FEB`"),
    ("0 0 1 11-2/3 *", "11-2/3", "runs backwards", "write `11,2`"),
    ("0 H(07-5) * * *", "H(07-5)", "runs backwards", "choose one side: write `H(7-23)` or write `H(0-5)`"),
    ("0 0 * * H(5-0)/2", "H(5-0)", "runs backwards", "choose one side: write `H(5-6)` or write `H(0-0)`"),
    ("10-4 0 2 * * *", "10-4", "seconds range `10-4` runs backwards", "write `10-59,0-4`"),
    ("0 H(0 -7) * * *", "H(0", "not a form of `H`", "one range, without blanks"),
    ("0 H(*-7) * * *", "*-7", "not a range", "write `0-23`"),
    ("x 0 2 * * *", "x", "seconds `x` is not a number", "from 0 to 59"),
    // A crontab's line.
    ("0 2 * * * /usr/bin/backup", "/usr/bin/backup", "no part of a schedule", "put the command into `command`"),
    ("0 2 * * * ./backup.sh", "./backup.sh", "no part of a schedule", "put the command into `command`"),
    ("0 2 * * * root", "root", "no part of a schedule", "no place for a command or its user"),
    ("0 2 * * * echo", "echo", "no part of a schedule", "put the command into `command`"),
    ("0 2 * * * echo hello world", "echo hello world", "no part of a schedule", "put the command into `command`"),
    ("0 2 * * * monitor", "monitor", "no part of a schedule", "put the command into `command`"),
    ("0 2 * * bin/x", "bin/x", "no part of a schedule", "put the command into `command`"),
    ("0 0 2 * * MON /bin/x", "/bin/x", "no part of a schedule", "put the command into `command`"),
    ("0 0 2 * * Monday", "Monday", "not a number or name", "write `MON`"),
    // A zone.
    ("0 2 * * * Europe/Berlin", "Europe/Berlin", "a zone stands inside", "`timeZone: Europe/Berlin`"),
    ("0 2 * * * europe/berln", "europe/berln", "a zone stands inside", "`timeZone: Europe/Berlin`"),
    (
        "America/Argentina/Ushuaia 0 2 * * *",
        "America/Argentina/Ushuaia",
        "a zone stands inside",
        "`timeZone: America/A",
    ),
    ("0 2 * * * UTC", "UTC", "a zone stands inside", "`timeZone: UTC`"),
    ("@daily Europe/Berlin", "Europe/Berlin", "a zone stands inside", "`timeZone: Europe/Berlin`"),
    ("0 2 * * X/y", "X", "day-of-week `X` is not a number", ""),
    ("0 2 * * */bin", "bin", "not a step", "from 1 to 7"),
    ("0 0 2 * * */bin", "bin", "not a step", "from 1 to 7"),
    ("0 2 * * * # each night", " # each night", "a comment", "remove it"),
    ("@daily # each night", " # each night", "a comment", "remove it"),
    ("@daily /bin/x", "/bin/x", "stands after `@daily`", "a command belongs into `command`"),
    ("@daily at 02:30", "at 02:30", "stands after `@daily`", "write `30 2 * * *`"),
    ("@hourly 02:30", "02:30", "stands after `@hourly`", "remove it"),
    ("0 2 x/y * *", "x", "day-of-month `x` is not a number", "from 1 to 31"),
    // Quotes.
    ("\"0 2 * * *\"", "\"0 2 * * *\"", "quoted twice", "remove the inner quotes: write `0 2 * * *`"),
    ("'@daily'", "'@daily'", "quoted twice", "write `@daily`"),
    ("'0 99 * * *'", "'0 99 * * *'", "quoted twice", "remove the inner quotes"),
    ("0 2 * * *\"", "0 2 * * *\"", "a quote stands inside", "write `0 2 * * *`"),
    // Behind a star.
    ("*; * * * *", "*;", "not a range", "write `*`"),
    ("*0 * * * *", "*0", "not a range", "write `*`"),
    ("*92 * * * *", "*92", "not a range", "write `*`"),
    ("0 0 *L * *", "*L", "not a range", "write `*`"),
    ("0 0 * * *5", "*5", "not a range", "write `*/5`"),
    ("*5/10 * * * *", "*5", "not a range", "write `*`"),
    // Ends beyond the field.
    ("0-60 * * * *", "0-60", "minute 60 is outside 0-59", "write `0-59`"),
    ("30-60 * * * *", "30-60", "minute 60 is outside", "write `30-59`, or with the minute 0 as well write `30-59,0`"),
    ("30-60/5 * * * *", "30-60", "minute 60 is outside", "write `30-59`"),
    ("0 20-24 * * *", "20-24", "hour 24 is outside 0-23", "with the hour 0 as well write `20-23,0`"),
    ("0 23-24 * * *", "23-24", "hour 24 is outside 0-23", "write `23`, or with the hour 0 as well write `23,0`"),
    ("0 0 28-32 * *", "28-32", "day-of-month 32", "write `28-31`"),
    ("0 0 * * MON-8", "MON-8", "day-of-week 8", "write `MON-7`"),
    ("0,30,60 * * * *", "60", "minute 60", "write `0`"),
    // Distances.
    ("@every 1m foo", "1m foo", "more than one word", "write `@every 1m`"),
    ("@every 1 hour", "1 hour", "more than one word", "write `@every 1h`"),
    ("@every 5min", "5min", "not a distance", "write `@every 5m`"),
    ("@every 5M", "5M", "not a distance", "write `@every 5m`"),
    ("@every 2 hours and 30 minutes", "2 hours and 30 minutes", "more than one word", "write `@every 2h30m`"),
    ("@every 1h5", "1h5", "not a distance", "as in `@every 1h30m`"),
    ("@every foo bar", "foo bar", "more than one word", "as in `@every 1h30m`"),
    ("@every 0", "0", "no unit", "as in `@every 1h30m`"),
    ("@every5x", "@every5x", "not a known name", "`@every 5m`"),
    ("1day", "1day", "too few", "write `@every 1d`"),
    ("5M", "5M", "too few", "write `@every 5m`"),
    ("5", "5", "too few", "five fields"),
    ("*/60 * * * *", "*/60", "step 60 is larger than the minute field", "once an hour write `0`"),
    ("0 */24 * * *", "*/24", "step 24 is larger than the hour field", "once a day write `0`"),
    ("*/60 8 * * 1-5", "*/60", "step 60", "once an hour write `0`"),
    ("*/60 * * * * *", "*/60", "step 60 is larger than the seconds field", "once a minute write `0`"),
    ("*/90 8 * * *", "90", "step 90", "write a step from 1 to 59"),
    ("*/90 * * * 1-5", "90", "step 90", "write a step from 1 to 59"),
    ("30 */36 * * *", "36", "step 36", "write a step from 1 to 23"),
    ("0 */36 * * *", "36", "step 36", "write `@every 36h`, which is counted in UTC"),
    // One day.
    ("0 0 * * MON-WED#1", "MON-WED#1", "not one day", "list them: write `MON#1,TUE#1,WED#1`"),
    ("0 0 * * FRI-L", "FRI-L", "not one day", "take one day; write `FRIL`"),
    ("0 0 * * 1-3L", "1-3L", "not one day", "list them: write `1L,2L,3L`"),
    ("0 0 1-3W * *", "1-3W", "not one day", "list them: write `1W,2W,3W`"),
    ("0 0 1-40W * *", "1-40W", "not one day", "list them, as in `1W,2W`"),
    ("0 0 LW-1 * *", "LW-1", "not a day", "write `LW`"),
    ("0 0 L15 * *", "L15", "not a day", "write `L-15`"),
    ("0 0 L3 * *", "L3", "not a day", "write `L-3`"),
    ("0 0 L/2 * *", "L/2", "not a day", "write `L`"),
    ("0 0 WL * *", "WL", "not a day", "write `LW`"),
    ("0 0 15W/2 * *", "15W/2", "not a day", "write `15W`"),
    ("0 0 L1-3 * *", "L1-3", "not a day", "there are `L`, `L-3`, `LW` and `15W`"),
    ("0 0 W15 * *", "W15", "not a day", "write `15W`"),
    ("0 0 L99 * *", "L99", "not a day", "there are `L`, `L-3`, `LW` and `15W`"),
    ("0 0 * * L5", "L5", "not a day", "write `5L`"),
    ("0 0 * * FRIL/2", "FRIL/2", "not a day", "write `FRIL`"),
    ("0 0 * * 5#", "5#", "a number is missing after `#`", "write `5#1`"),
    ("0 0 L- * *", "L-", "a number is missing after `L-`", "write `L-1`"),
    ("0 0 31W 2 *", "0 0 31W 2 *", "never fires", "write `0 0 LW 2 *`"),
    ("0 0 8 30 2 *", "0 0 8 30 2 *", "never fires", "write `0 0 8 L 2 *`"),
    // English.
    ("every hour", "every hour", "too few", "write `@hourly`"),
    ("every day", "every day", "too few", "write `@daily`"),
    ("every minute", "every minute", "too few", "write `* * * * *`"),
    ("every second", "every second", "too few", "write `* * * * * *`"),
    ("every 2 weeks", "every 2 weeks", "too few", "write `@every 14d`"),
    ("02:30", "02:30", "too few", "write `30 2 * * *`"),
    ("02:30:15", "02:30:15", "too few", "write `15 30 2 * * *`"),
    ("every day at 02:30", "every day at 02:30", "too few", "write `30 2 * * *`"),
    ("every monday at 9:00", "every monday at 9:00", "too few", "five fields"),
    ("25:00", "25:00", "too few", "five fields"),
    ("02:30 2 * * *", "02:30", "not a number", "two fields"),
    // Several schedules in one text.
    ("0 9 * * MON-FRI;0 10 * * SAT", ";", "`;` stands between two", "a list: [\"0 9 * * MON-FRI\", \"0 10 * * SAT\"]"),
    (
        "0 9 * * MON-FRI | 0 10 * * SAT",
        "|",
        "`|` stands between two",
        "a list: [\"0 9 * * MON-FRI\", \"0 10 * * SAT\"]",
    ),
    ("0 9 * * MON-FRI || @hourly", "||", "`||` stands between two", "a list: [\"0 9 * * MON-FRI\", \"@hourly\"]"),
    ("0 9 * * *, 0 10 * * *", ", ", "`,` stands between two", "a list: [\"0 9 * * *\", \"0 10 * * *\"]"),
    ("@daily and @hourly", " and ", "`and` stands between two", "a list: [\"@daily\", \"@hourly\"]"),
    ("@every 1h; @every 7m", ";", "`;` stands between two", "a list: [\"@every 1h\", \"@every 7m\"]"),
    ("0 9 * * *; 0 99 * * *", ";", "`;` stands between two", "several are a list of texts: `[\"0 9"),
    ("0 9 * * *; echo", "echo", "no part of a schedule", "put the command into `command`"),
    ("0 9 * * 1 0 10 * * SAT", "10 * * SAT", "10 fields are too many", "a list: [\"0 9 * * 1\", \"0 10 * * SAT\"]"),
    ("0\u{200b} 0 * * *", "\u{200b}", "the invisible character U+200B", "remove it"),
    ("\u{feff}0 0 * * *", "\u{feff}", "the invisible character U+FEFF", "remove it"),
    ("0 0 \u{202e}* * *", "\u{202e}", "the invisible character U+202E", "remove it"),
    // No blanks.
    ("*****", "*****", "too few", "blanks separate fields: write `* * * * *`"),
    ("??????", "??????", "too few", "write `? ? ? ? ? ?`"),
    ("*/5****", "*/5****", "too few", "write `*/5 * * * *`"),
    ("0 2***", "0 2***", "too few", "write `0 2 * * *`"),
    ("*,1****", "*,1****", "too few", "write `*,1 * * * *`"),
    ("****", "****", "too few", "five fields"),
    // ISO 8601.
    ("PT5M", "PT5M", "how ISO 8601 writes a distance", "write `@every 5m`"),
    ("p1dt12h", "p1dt12h", "how ISO 8601 writes a distance", "write `@every 1d12h`"),
    ("P2W", "P2W", "how ISO 8601 writes a distance", "write `@every 14d`"),
    ("P1M", "P1M", "how ISO 8601 writes a distance", "write `@monthly`"),
    ("P3M", "P3M", "how ISO 8601 writes a distance", "write five fields"),
    ("R/PT1H", "R/PT1H", "how ISO 8601 writes a distance", "write `@every 1h`"),
    (
        "R5/2026-03-01T00:00:00Z/PT1H",
        "R5/2026-03-01T00:00:00Z/PT1H",
        "how ISO 8601 writes a distance",
        "write `@every 1h`, which has neither a first run nor a last",
    ),
    // Names.
    ("0 0 MON * *", "MON", "not a number", "belongs in the day-of-week field"),
    ("0 FRI * * *", "FRI", "not a number", "belongs in the day-of-week field"),
    ("0 0 * friday *", "friday", "not a number or name", "belongs in the day-of-week field"),
    ("0 0 * * JAN", "JAN", "not a number or name", "belongs in the month field"),
    ("0 0 * * APRIL", "APRIL", "not a number or name", "belongs in the month field"),
    ("0 0 * * MO", "MO", "not a number or name", "write `MON`"),
    ("0 0 * * mo-fr", "mo-fr", "three letters", "write `MON-FRI`"),
    ("0 0 * * Monday-fri/2", "Monday-fri", "three letters", "write `MON-fri`"),
    ("0 0 * * Friday-Monday", "Friday-Monday", "three letters", "write `FRI-SAT,SUN-MON`"),
    ("0 0 * * thurs-7", "thurs-7", "three letters", "write `THU-7`"),
    ("0 0 * ma *", "ma", "not a number or name", "a name as `JAN`"),
    ("0 0 * ~ *", "~", "not a number or name", "is `H(1-6)`"),
];

fn rows() -> impl Iterator<Item = Row> {
    REFUSED.iter().chain(REFUSED_WORDS).chain(REFUSED_HABITS).copied()
}

#[test]
fn an_error_underlines_the_culprit_and_says_what_to_write() {
    let mut wrong = Vec::new();
    for (text, culprit, message, hint) in rows() {
        let error = Schedule::parse(text, &Zone::utc(), "job").expect_err(text);
        let underlined: String = text.chars().skip(error.column).take(error.length).collect();
        let hinted = error.hint.as_ref().is_some_and(|found| found.contains(hint));
        if underlined != culprit || !error.to_string().contains(message) || !hinted {
            wrong.push(format!("{text}: underlines `{underlined}`: {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A hint is followed to the letter, so `write x` must lead to a schedule: as the whole text, or in place of what is
/// underlined.
#[test]
fn what_a_hint_says_to_write_is_accepted() {
    let is_schedule = |text: &str| Schedule::parse(text, &Zone::utc(), "job").is_ok();
    let (mut followed, mut wrong) = (0, Vec::new());
    for (text, ..) in rows() {
        let error = Schedule::parse(text, &Zone::utc(), "job").expect_err(text);
        let hint = error.hint.clone().unwrap_or_default();
        for rest in hint.split("write `").skip(1) {
            let written = rest.split('`').next().unwrap_or_default();
            let before: String = text.chars().take(error.column).collect();
            let after: String = text.chars().skip(error.column + error.length).collect();
            let mended = format!("{before}{written}{after}");
            if !is_schedule(written) && !is_schedule(&mended) {
                wrong.push(format!("{text}: {hint}: neither `{written}` nor `{mended}`"));
            }
            followed += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(followed > 100, "only {followed} hints say what to write");
}

#[test]
fn digits_of_other_scripts_are_refused() {
    for text in ["٣ * * * *", "５ * * * *", "1–5 * * * *", "é * * * *", "\0 * * * *"] {
        let error = Schedule::parse(text, &Zone::utc(), "job").expect_err(text);
        assert_eq!((error.column < 2, error.length), (true, 1), "{text}: {error:?}");
    }
}

#[test]
fn columns_count_the_blanks_before_the_text() {
    let error = Schedule::parse("  \t0 99 * * *", &Zone::utc(), "job").unwrap_err();
    assert_eq!((error.column, error.length), (5, 2));
}

#[test]
fn a_text_longer_than_256_bytes_is_refused() {
    let long = |count: usize| format!("{} * * * *", vec!["1"; count].join(","));
    assert!(Schedule::parse(&long(124), &Zone::utc(), "job").is_ok());
    let error = Schedule::parse(&long(125), &Zone::utc(), "job").unwrap_err();
    assert_eq!(error.to_string(), "a schedule of 257 bytes is longer than 256");
}

/// `@every ` before it would make it longer than what is read.
#[test]
fn a_long_distance_without_every_is_not_answered_with_one_that_is_too_long() {
    let hint = |zeros: usize| {
        let text = format!("{}1h", "0".repeat(zeros));
        Schedule::parse(&text, &Zone::utc(), "job").unwrap_err().hint.unwrap()
    };
    assert!(!hint(250).contains("@every"), "{}", hint(250));
    assert!(hint(190).contains("write `@every 000"), "{}", hint(190));
}
