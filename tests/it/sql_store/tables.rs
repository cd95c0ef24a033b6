//! The tables: made by many at once, and left alone where they are of a later form.

use super::*;
use onecron::job::Answer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_set_up_the_same_new_database_at_once() {
    for place in Place::all() {
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let store = place.open();
            tasks.spawn(async move { store.apply(&[register("job")]).await.unwrap()[0].verdict });
        }
        let verdicts = tasks.join_all().await;
        let fresh = Verdict::Registered { fresh: true, rescheduled: false };
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == fresh).count(), 1, "{:?}: {verdicts:?}", place.kind);
        assert_eq!(place.sql("SELECT version FROM onecron_schema"), "1001");
    }
}

#[tokio::test]
async fn tables_of_an_earlier_version_get_what_is_new() {
    for place in Place::all() {
        place.open().apply(&[register("job")]).await.unwrap();
        place.sql("ALTER TABLE onecron_job DROP COLUMN missed");
        place.sql("ALTER TABLE onecron_job DROP COLUMN stale");
        place.sql("UPDATE onecron_schema SET version = 1000");
        let answer = place.open().apply(&[register("job")]).await.unwrap().remove(0);
        assert_eq!(answer.verdict, Verdict::Registered { fresh: false, rescheduled: false }, "{:?}", place.kind);
        assert_eq!(answer.job.map(|job| (job.missed, job.stale)), Some((0, None)));
        assert_eq!(place.sql("SELECT version FROM onecron_schema"), "1001");
    }
}

#[tokio::test]
async fn tables_of_a_newer_form_are_refused_and_additions_are_left_alone() {
    for place in Place::all() {
        let (store, run) = (place.open(), run("job", 1));
        store.apply(&[register("job"), claim(&run, "web-1")]).await.unwrap();
        for table in ["job", "run"] {
            place.sql(&format!("ALTER TABLE onecron_{table} ADD COLUMN colour varchar(9) DEFAULT 'red'"));
            place.sql(&format!("UPDATE onecron_{table} SET colour = 'blue'"));
        }
        place.sql("UPDATE onecron_schema SET version = 1900");
        place.open().apply(&[register("job"), begin(&run, "web-1")]).await.unwrap();
        assert_eq!(place.sql("SELECT colour FROM onecron_job UNION ALL SELECT colour FROM onecron_run"), "blue\nblue");
        place.sql("UPDATE onecron_schema SET version = 2000");
        let error = place.open().apply(&[register("job")]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Misconfigured);
        assert!(error.to_string().contains("a newer onecron made them"), "{error}");
    }
}

/// Whoever set the tables up may have died half-way.
#[tokio::test]
async fn tables_that_were_set_up_by_half_are_completed() {
    for place in Place::all() {
        place.open().server_time().await.unwrap();
        place.sql("UPDATE onecron_schema SET version = 0");
        place.sql("DROP TABLE onecron_run_event");
        place.open().apply(&[register("job"), claim(&run("job", 1), "web-1")]).await.unwrap();
        assert_eq!(place.sql("SELECT event FROM onecron_run_event"), "claimed");
    }
}

/// The row of the version stays, and says that all are there.
#[tokio::test]
async fn tables_that_somebody_drops_are_made_again_by_whoever_misses_them() {
    const LOST: [&str; 5] = ["job", "run", "history", "replica", "run_event"];
    for place in Place::all() {
        let going_on = place.open();
        going_on.apply(&[register("job")]).await.unwrap();
        for (n, lost) in (1..).zip(LOST.iter().map(|one| vec![*one]).chain([LOST.to_vec()])) {
            for table in &lost {
                place.sql(&format!("DROP TABLE onecron_{table}"));
            }
            // One with a connection of before, and one that comes now.
            for (store, minute) in [(&going_on, 2 * n), (&place.open(), 2 * n + 1)] {
                let answers = store.apply(&[register("job"), claim(&run("job", minute), "web-1")]).await.unwrap();
                assert_eq!(answers[1].verdict, Verdict::Won, "{:?}: {lost:?}", place.kind);
                store.history(&job("job"), 9).await.unwrap();
                store.meet(None, &[]).await.unwrap();
            }
            assert_eq!(place.sql("SELECT version FROM onecron_schema"), "1001");
        }
    }
}

/// A job of which no run is known any more would take the next claim of a decided tick for the first.
#[tokio::test]
async fn a_job_whose_runs_were_dropped_is_one_that_the_store_forgot() {
    for place in Place::all() {
        let store = place.open();
        store.apply(&[register("job"), claim(&run("job", 1), "web-1")]).await.unwrap();
        place.sql("DROP TABLE onecron_run");
        let fresh = Verdict::Registered { fresh: true, rescheduled: false };
        assert_eq!(verdict(&store, register("job")).await, fresh, "{:?}", place.kind);
    }
}

/// Whoever may not make tables is told what is missing, and what to grant.
#[tokio::test]
async fn tables_that_cannot_be_made_again_are_named() {
    let Some(place) = Place::new(Kind::Postgres) else { return };
    let store = place.open();
    store.apply(&[register("job")]).await.unwrap();
    place.sql("DROP TABLE onecron_run");
    let user = &place.database;
    place.server.sql(&format!("REVOKE CREATE ON SCHEMA {user} FROM {user}; ALTER SCHEMA {user} OWNER TO postgres; GRANT USAGE ON SCHEMA {user} TO {user}"));
    let error = store.apply(&[register("job")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    for words in ["a table of onecron's was dropped", "cannot be made again", "grant it CREATE"] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_record_of_a_newer_form_is_not_touched() {
    for place in Place::all() {
        let (store, run) = (place.open(), run("job", 1));
        store.apply(&[register("job"), claim(&run, "web-1")]).await.unwrap();
        place.sql("UPDATE onecron_run SET format = 2");
        let unreadable = Answer::unreadable(2);
        let answers = store.apply(&[register("job"), claim(&run, "web-1")]).await.unwrap();
        assert_eq!(answers, [unreadable.clone(), unreadable.clone()]);
        place.sql("UPDATE onecron_job SET format = 2");
        let answers = store.apply(&[register("job"), register("other"), claim(&run, "web-1")]).await.unwrap();
        assert_eq!((&answers[0], &answers[2]), (&unreadable, &unreadable));
        assert_eq!(answers[1].verdict, Verdict::Registered { fresh: true, rescheduled: false });
        let jobs: Vec<JobName> = store.jobs().await.unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(jobs, [job("other")], "those that can be read");
        assert_eq!(place.sql("SELECT revision FROM onecron_job WHERE job = 'job'"), "2", "left as it was");
        place.sql("UPDATE onecron_job SET format = 1");
        place.sql("UPDATE onecron_run SET format = 1, state = 'dreaming'");
        assert_eq!(store.apply(&[claim(&run, "web-1")]).await.unwrap(), [Answer::unreadable(0)], "no other word");
    }
}

/// A request that is dropped half-way must not leave locks behind.
#[tokio::test]
async fn a_dropped_request_leaves_no_lock() {
    for place in Place::all() {
        let (store, other, run) = (place.open(), place.open(), run("job", 1));
        store.apply(&[register("job")]).await.unwrap();
        let mut steps: Vec<Step> = (0..400).map(|n| register(&format!("job-{n}"))).collect();
        steps.push(register("job"));
        let dropped = tokio::time::timeout(Duration::from_millis(10), store.apply(&steps)).await;
        assert!(dropped.is_err(), "400 registrations take longer");
        assert_eq!(verdict(&other, claim(&run, "web-1")).await, Verdict::Won);
        assert_eq!(verdict(&store, claim(&run, "web-2")).await, Verdict::Held);
        assert_eq!(store.jobs().await.unwrap().len(), 1, "all or nothing");
    }
}
