//! Any expression in any zone, mostly near a shift of its clocks: the product and the oracle name the same ticks.
//!
//! `ONECRON_SCHEDULE_CASES=200000 cargo test --release --lib schedule::tests::campaign` is a long campaign,
//! `ONECRON_SCHEDULE_CASE=4711` does one case alone: the one that a failure has printed.

use super::super::zone_data::ZoneData;
use super::super::zone_data::names;
use super::Schedule;
use super::Zone;
use super::oracle::Oracle;
use crate::schedule::DstRule;
use crate::schedule::Fold;
use crate::schedule::Gap;
use chrono::DateTime;
use chrono::Utc;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::path::Path;

/// What a debug build does in a few seconds.
const CASES: u64 = 500;
/// 1970-01-01 and 2100-12-31.
const YEARS: (i64, i64) = (0, 4_133_894_400);
const DAY: i64 = 86_400;
/// So many ticks of a case are compared.
const TICKS_MOST: usize = 40;

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Both included.
    fn number(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.next() % u64::try_from(high - low + 1).unwrap()).unwrap()
    }

    fn one_in(&mut self, count: i64) -> bool {
        self.number(1, count) == 1
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.number(0, i64::try_from(all.len()).unwrap() - 1)).unwrap()]
    }
}

const MONTHS: [&str; 12] = ["JAN", "feb", "Mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "oct", "NOV", "DEC"];
const WEEK: [&str; 7] = ["SUN", "mon", "Tue", "WED", "THU", "fri", "SAT"];

/// A number of the field, now and then by its name.
fn value(random: &mut Random, number: i64, at: usize) -> String {
    let names: &[&str] = [&[][..], &[], &[], &[], &MONTHS, &WEEK][at];
    let index = usize::try_from(if at == 4 { number - 1 } else { number }).unwrap();
    match names.get(index) {
        Some(name) if random.one_in(2) => (*name).to_owned(),
        _ if random.one_in(20) => format!("0{number}"),
        _ => number.to_string(),
    }
}

/// From Sunday to Sunday in numbers: with a name it is refused.
fn range(random: &mut Random, (first, last): (i64, i64), at: usize) -> String {
    match at {
        5 if first % 7 == 0 && last % 7 == 0 => format!("{first}-{last}"),
        _ => format!("{}-{}", value(random, first, at), value(random, last, at)),
    }
}

/// An item that may stand in a list; only the first one of a field may begin with a star, else a list is all.
fn item(random: &mut Random, at: usize, is_first: bool) -> String {
    let (low, high) = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7)][at];
    let (a, b) = (random.number(low, high), random.number(low, high));
    let (first, last) = (a.min(b), a.max(b));
    let step = random.number(1, high);
    match random.number(0, 15) {
        0..=2 if is_first => (*random.one_of(&["*", "*", "*", "?"])).to_owned(),
        3 | 4 if is_first => format!("{}/{step}", random.one_of(&["*", "*", "?"])),
        5 => format!("{}/{step}", value(random, a, at)),
        6 => range(random, (first, last), at),
        7 => format!("{}/{}", range(random, (first, last), at), random.number(1, 5)),
        8 => "H".to_owned(),
        9 => format!("h/{step}"),
        10 => format!("H({first}-{last})"),
        11 => format!("H({first}-{last})/{step}"),
        12 if at == 3 => match random.number(0, 3) {
            0 => "L".to_owned(),
            1 => format!("L-{}", random.number(1, 30)),
            2 => "LW".to_owned(),
            _ => format!("{a}W"),
        },
        12 if at == 5 && random.one_in(2) => format!("{}L", value(random, a, at)),
        12 if at == 5 => format!("{}#{}", value(random, a, at), random.number(1, 5)),
        _ => value(random, a, at),
    }
}

fn field(random: &mut Random, at: usize) -> String {
    // Mostly days are left alone, and hours are those at which clocks are set.
    let day = at > 2 && random.number(1, 10) < 7;
    let hour = at == 2 && random.one_in(2);
    if day || hour {
        return (*random.one_of(if day { &["*"][..] } else { &["*", "*/2", "0-3", "1,2", "2", "23,0", "0", "3"] }))
            .to_owned();
    }
    let count = if random.one_in(3) { random.number(2, 4) } else { 1 };
    (0..count).map(|index| item(random, at, index == 0)).collect::<Vec<_>>().join(",")
}

fn expression(random: &mut Random) -> String {
    if random.one_in(50) {
        return format!("@every {}{}", random.number(1, 300), random.one_of(&["s", "m", "h", "d", "m30s", "h15m"]));
    }
    if random.one_in(60) {
        return (*random.one_of(&["@yearly", "@monthly", "@weekly", "@daily", "@MIDNIGHT", "@hourly"])).to_owned();
    }
    let first = usize::from(!random.one_in(5));
    let blank = *random.one_of(&[" ", " ", "  ", "\t"]);
    (first..6).map(|at| field(random, at)).collect::<Vec<_>>().join(blank)
}

/// Zones as the files have them, and when their clocks are set.
struct Zones {
    data: ZoneData,
    names: Vec<&'static str>,
    known: BTreeMap<&'static str, (TimeZone, Vec<i64>)>,
}

impl Zones {
    fn new() -> Self {
        let mut names: Vec<_> = names().collect();
        names.sort_unstable();
        names.dedup();
        Self { data: ZoneData::choose(Path::new("/usr/share/zoneinfo")), names, known: BTreeMap::new() }
    }

    fn get(&mut self, name: &'static str) -> &(TimeZone, Vec<i64>) {
        let data = &self.data;
        self.known.entry(name).or_insert_with(|| {
            let zone = data.read(name).unwrap();
            let shifts = zone.following(Timestamp::UNIX_EPOCH).map(|shift| shift.timestamp().as_second());
            let shifts = shifts.take_while(|shift| *shift < YEARS.1).collect();
            (zone, shifts)
        })
    }
}

struct Case {
    text: String,
    job: String,
    zone: &'static str,
    rule: DstRule,
    from: i64,
    until: i64,
}

fn case(random: &mut Random, zones: &mut Zones) -> Case {
    let zone = *random.one_of(&zones.names);
    let shifts = &zones.get(zone).1;
    let from = if shifts.is_empty() || random.one_in(5) {
        random.number(YEARS.0, YEARS.1)
    } else {
        let hours = *random.one_of(&[(-40, 4), (-3, 3)]); // before the shift, or right at it: in either pass of a fold
        random.one_of(shifts) + random.number(hours.0 * 3600, hours.1 * 3600)
    };
    let span = *random.one_of(&[2 * DAY, 2 * DAY, 2 * DAY, 40 * DAY, 400 * DAY]);
    let gap = *random.one_of(&[Gap::RunAfter, Gap::RunAfter, Gap::Skip]);
    let fold = *random.one_of(&[Fold::First, Fold::First, Fold::Both]);
    let job = format!("job-{}", random.number(0, 1000));
    Case { text: expression(random), job, zone, rule: DstRule { gap, fold }, from, until: from + span }
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

/// `Ok`: how many ticks were equal; `None` for an expression that never fires.
fn compare(case: &Case, zones: &mut Zones) -> Result<Option<usize>, String> {
    let Case { text, job, zone: name, rule, from, until } = case;
    let zone = Zone::find(name).map_err(|error| error.to_string())?;
    let mut oracle = Oracle::new(text, job, zones.get(name).0.clone());
    let schedule = match Schedule::parse(text, &zone, job) {
        Ok(schedule) => schedule.with_dst(*rule),
        Err(error) if error.message.contains("never fires") && oracle.never_fires() => return Ok(None),
        Err(error) => return Err(format!("refused: {error:?}")),
    };
    let wanted = oracle.ticks(*rule, (*from, *until), TICKS_MOST);
    let mut found = Vec::new();
    let mut instant = *from;
    while let Some(tick) = schedule.after(at(instant)).map(|tick| tick.timestamp()) {
        if tick <= instant {
            return Err(format!("{tick} after {instant}"));
        }
        if tick > *until || found.len() == TICKS_MOST {
            break;
        }
        found.push(tick);
        instant = tick;
    }
    if found != wanted {
        let first = found.iter().zip(&wanted).position(|(a, b)| a != b).unwrap_or(found.len().min(wanted.len()));
        return Err(format!(
            "tick {first}: found {:?}, wanted {:?}",
            found.get(first).map(|tick| at(*tick)),
            wanted.get(first).map(|tick| at(*tick))
        ));
    }
    let ticks = |list: Vec<DateTime<Utc>>| list.iter().map(DateTime::timestamp).collect::<Vec<_>>();
    let between = |schedule: &Schedule| ticks(schedule.between(at(from + 1), at(until + 1)).take(TICKS_MOST).collect());
    if between(&schedule) != wanted {
        return Err(format!("`between` says {:?}, wanted {wanted:?}", between(&schedule)));
    }
    // From one tick up to before another: the first is in, the second is not.
    if let [first, .., last] = wanted.as_slice()
        && ticks(schedule.between(at(*first), at(*last)).collect()) != wanted[..wanted.len() - 1]
    {
        return Err("`between` two ticks".to_owned());
    }
    let (_, shifts) = zones.get(name);
    let at_least = i64::try_from(schedule.distance_at_least().as_secs()).unwrap();
    let is_calm = |from: i64, until: i64| !shifts.iter().any(|shift| (from - DAY..=until + DAY).contains(shift));
    if let Some(pair) = wanted.windows(2).find(|pair| pair[1] - pair[0] < at_least && is_calm(pair[0], pair[1])) {
        return Err(format!("{} and {} are closer than {at_least} s", at(pair[0]), at(pair[1])));
    }
    let canonical = schedule.canonical();
    let again = Schedule::parse(&canonical, &zone, "another job").map_err(|error| format!("{canonical}: {error:?}"))?;
    if again.0.parts[0].plan != schedule.0.parts[0].plan || again.canonical() != canonical {
        return Err(format!("its canonical text {canonical} is another schedule"));
    }
    if between(&again.with_dst(*rule)) != wanted {
        return Err(format!("its canonical text {canonical} has other ticks"));
    }
    Ok(Some(wanted.len()))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

#[test]
fn any_expression_in_any_zone_has_the_ticks_that_a_walk_finds() {
    let mut zones = Zones::new();
    let one = number("ONECRON_SCHEDULE_CASE");
    let first = one.unwrap_or(0);
    let count = if one.is_some() { 1 } else { number("ONECRON_SCHEDULE_CASES").unwrap_or(CASES) };
    let (mut ticks, mut never, mut wrong) = (0, 0, Vec::new());
    for seed in first..first + count {
        let case = case(&mut Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)), &mut zones);
        match compare(&case, &mut zones) {
            Ok(Some(equal)) => ticks += equal,
            Ok(None) => never += 1,
            Err(error) => {
                let Case { text, job, zone, rule, from, .. } = case;
                wrong.push(format!("case {seed}: `{text}` of {job} in {zone} after {}, {rule:?}: {error}", at(from)));
            }
        }
    }
    println!("{count} cases in {} zones: {ticks} ticks, {never} never fire, {} differ", zones.known.len(), wrong.len());
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(one.is_some() || ticks as u64 > count, "hardly any ticks were compared: {ticks}");
}
