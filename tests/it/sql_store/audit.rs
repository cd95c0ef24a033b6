//! The audit trail, and what a person asks of it: the very queries of the docs.

use super::*;

/// The statements of a section of the docs that are about the audit trail, with what they are called.
fn queries(section: &str) -> Vec<(String, String)> {
    let docs = include_str!("../../../docs/stores.md");
    let (_, from) = docs.split_once(&format!("\n## {section}\n")).unwrap();
    let text = from.split_once("\n## ").map_or(from, |(section, _)| section);
    let blocks = text.split("```sql\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let statements = blocks.flat_map(|block| block.split(";\n")).map(str::trim).filter(|sql| sql.starts_with("--"));
    let named = |sql: &str| {
        let (name, sql) = sql.split_once('\n').unwrap();
        (name.trim_start_matches("-- ").to_owned(), sql.to_owned())
    };
    statements.map(named).filter(|(_, sql)| sql.contains("onecron_run_event")).collect()
}

#[tokio::test]
async fn the_trail_tells_who_did_what_when_and_the_queries_of_the_docs_find_it() {
    for place in Place::all() {
        let store = place.open();
        store.apply(&[register("nightly-sales"), register("other")]).await.unwrap();
        let (good, bad, gone) = (run("nightly-sales", 1), run("nightly-sales", 2), run("other", 3));
        let batch = [
            claim(&good, "web-1"),
            begin(&good, "web-1"),
            complete(&good, "web-1", Outcome::Succeeded),
            claim(&bad, "web-2"),
            begin(&bad, "web-2"),
            // Sent again: nothing happens, and nothing is written.
            begin(&bad, "web-2"),
            complete(&bad, "web-2", Outcome::Failed),
            claim(&gone, "web-3"),
            begin(&gone, "web-3"),
        ];
        let seen = store.apply(&batch).await.unwrap()[8].run.as_ref().unwrap().seen();
        assert_eq!(verdict(&store, settle(&gone, seen, Decision::Lost)).await, Verdict::Settled);
        let missed = Step::Settle {
            run: run("other", 4),
            owner: replica("web-1"),
            previous: 0,
            expect: Expect::Absent { after_ms: 1000 },
            decision: Decision::Missed(onecron::job::MissedReason::NoReplica),
        };
        assert_eq!(verdict(&store, missed).await, Verdict::Settled);
        let found = place.sql("SELECT job, event, actor, coalesce(outcome, '-') FROM onecron_run_event ORDER BY id");
        let found = found.replace('\t', "|");
        let wanted = "nightly-sales|claimed|web-1-1|-\nnightly-sales|begun|web-1-1|-\n\
                      nightly-sales|completed|web-1-1|succeeded\nnightly-sales|claimed|web-2-1|-\n\
                      nightly-sales|begun|web-2-1|-\nnightly-sales|completed|web-2-1|failed\n\
                      other|claimed|web-3-1|-\nother|begun|web-3-1|-\nother|lost|web-9-1|lost\n\
                      other|settled|web-1-1|missed";
        assert_eq!(found, wanted, "{:?}", place.kind);
        let token = place.sql("SELECT token FROM onecron_run_event WHERE event = 'begun' ORDER BY id LIMIT 1");
        assert_eq!(token, (good.scheduled_for.seconds() << 20 | 1).to_string());

        let section = if place.kind == Kind::MariaDb { "MySQL and MariaDB" } else { "PostgreSQL" };
        let queries = queries(section);
        let day = &good.scheduled_for.to_string()[..10];
        let answers: Vec<String> =
            queries.iter().map(|(_, sql)| place.sql(&sql.replace("2026-03-01", day)).replace('\t', "|")).collect();
        let names: Vec<&str> = queries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "Who ran nightly-sales on that day, and how did it end?",
                "Which ticks were never run?",
                "How often did each job fail in the last 30 days?",
                "Which runs took longest?"
            ]
        );
        assert!(answers[0].contains("web-1-1|succeeded") && answers[0].contains("web-2-1|failed"), "{}", answers[0]);
        assert!(answers[1].contains("other") && answers[1].contains("no_replica"), "{}", answers[1]);
        assert!(answers[2].contains("nightly-sales|1") && answers[2].contains("other|1"), "{}", answers[2]);
        assert!(answers[3].lines().count() == 2 && answers[3].contains("web-1-1"), "{}", answers[3]);
    }
}

#[tokio::test]
async fn what_is_older_than_the_url_says_is_removed_from_the_trail() {
    for place in Place::all() {
        let url = format!("{}?audit-days=7", place.server.url(&place.database));
        let (store, run) = (open(&url, "default"), run("job", 1));
        store.apply(&[register("job"), claim(&run, "web-1"), begin(&run, "web-1")]).await.unwrap();
        let days = |days: i64| days * 86_400_000;
        place.sql(&format!(
            "UPDATE onecron_run_event SET happened_at = happened_at - {} WHERE event = 'claimed'",
            days(8)
        ));
        place.sql(&format!(
            "UPDATE onecron_run_event SET happened_at = happened_at - {} WHERE event = 'begun'",
            days(6)
        ));
        assert_eq!(store.retire(Duration::from_secs(3600)).await.unwrap(), []);
        assert_eq!(place.sql("SELECT event FROM onecron_run_event"), "begun", "{:?}", place.kind);
    }
}
