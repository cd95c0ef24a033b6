//! Who is there: presences.

use crate::support::scene::Scene;
use crate::support::scene::replica;
use onecron::job::Gathering;
use onecron::job::PRESENT_RUNS_MOST;
use onecron::job::Presence;
use std::sync::Arc;

fn presence(who: &str, number: u64) -> Presence {
    Presence { number, version: "1.2.3".into(), lease_ms: 15_000, ..Presence::new(replica(who), Presence::REPLICA) }
}

async fn meet(scene: &Scene, mine: &Presence) -> Gathering {
    scene.store.meet(Some(mine), &[]).await.unwrap()
}

async fn look(scene: &Scene) -> Vec<Presence> {
    plain(scene.store.meet(None, &[]).await.unwrap())
}

fn plain(gathering: Gathering) -> Vec<Presence> {
    gathering.members.into_iter().map(Arc::unwrap_or_clone).collect()
}

/// The members' names and numbers.
async fn known(scene: &Scene) -> Vec<(String, u64)> {
    look(scene).await.into_iter().map(|member| (member.name.to_string(), member.number)).collect()
}

fn named(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(who, number)| (replica(who).to_string(), *number)).collect()
}

pub async fn a_member_sees_itself_and_the_others_by_name(scene: Scene) {
    assert_eq!(look(&scene).await, [], "nobody is there");
    let before = scene.store.server_time().await.unwrap().timestamp_millis();
    meet(&scene, &presence("web-2", 1)).await;
    let gathering = meet(&scene, &presence("web-1", 7)).await;
    let [first, second] = &gathering.members[..] else { panic!("{gathering:?}") };
    assert_eq!(**first, Presence { written_at: gathering.at, ..presence("web-1", 7) }, "with the store's time");
    assert_eq!(**second, Presence { written_at: second.written_at, ..presence("web-2", 1) });
    assert!(before <= second.written_at && second.written_at <= gathering.at, "{before} {gathering:?}");
}

pub async fn a_new_presence_takes_the_place_of_the_one_before(scene: Scene) {
    meet(&scene, &presence("web-1", 1)).await;
    meet(&scene, &presence("web-1", 2)).await;
    assert_eq!(known(&scene).await, named(&[("web-1", 2)]));
}

pub async fn who_only_looks_is_not_there(scene: Scene) {
    meet(&scene, &presence("web-1", 1)).await;
    assert_eq!(known(&scene).await, named(&[("web-1", 1)]));
    assert_eq!(known(&scene).await, named(&[("web-1", 1)]));
}

pub async fn a_presence_comes_back_as_it_went(scene: Scene) {
    let odd = "\"},\"number\":99,{\\ ünïcode\n\t\u{1}";
    let mine = Presence {
        kind: "some-tool".into(),
        version: odd.into(),
        revision: odd.into(),
        zone_data: odd.into(),
        jobs: u64::MAX,
        some_jobs: vec![odd.into(), String::new()].into(),
        up_ms: 1 << 60,
        offset_ms: Some(-86_400_000),
        draining: true,
        runs: (0..PRESENT_RUNS_MOST).map(|n| format!("{}@{}", "j".repeat(63), scene.tick(n as i64))).collect(),
        ..presence("web-1", 1 << 50)
    };
    let gathering = meet(&scene, &mine).await;
    let at = gathering.at;
    assert_eq!(plain(gathering), [Presence { written_at: at, ..mine.clone() }]);
    let left = plain(scene.store.meet(None, &[mine]).await.unwrap());
    assert_eq!(left, [], "and is found again by its number");
}

pub async fn a_member_is_removed_only_as_it_was_seen(scene: Scene) {
    meet(&scene, &presence("web-1", 1)).await;
    let seen = look(&scene).await;
    meet(&scene, &presence("web-1", 2)).await;
    meet(&scene, &presence("web-2", 1)).await;
    let gone = [seen[0].clone(), presence("web-2", 1), presence("nobody", 1)];
    scene.store.meet(Some(&presence("web-3", 1)), &gone).await.unwrap();
    assert_eq!(known(&scene).await, named(&[("web-1", 2), ("web-3", 1)]));
}

pub async fn who_leaves_is_not_there_any_more(scene: Scene) {
    meet(&scene, &presence("web-1", 1)).await;
    meet(&scene, &presence("web-2", 1)).await;
    scene.store.leave(&replica("web-1")).await.unwrap();
    scene.store.leave(&replica("web-1")).await.unwrap();
    assert_eq!(known(&scene).await, named(&[("web-2", 1)]));
}

pub async fn members_of_other_namespaces_are_not_seen(scene: Scene) {
    let other = scene.bench.open("other");
    meet(&scene, &presence("web-1", 1)).await;
    assert_eq!(plain(other.meet(None, &[presence("web-1", 1)]).await.unwrap()), []);
    other.leave(&replica("web-1")).await.unwrap();
    assert_eq!(known(&scene).await, named(&[("web-1", 1)]));
}

pub async fn members_that_meet_at_once_all_see_one_another_at_last(scene: Scene) {
    let meetings = (0..8).map(|n| {
        let store = scene.bench.open("default");
        tokio::spawn(async move {
            for number in 1..=5 {
                store.meet(Some(&presence(&format!("web-{n}"), number)), &[]).await.unwrap();
            }
        })
    });
    for meeting in meetings.collect::<Vec<_>>() {
        meeting.await.unwrap();
    }
    let all: Vec<(String, u64)> = (0..8).map(|n| (replica(&format!("web-{n}")).to_string(), 5)).collect();
    assert_eq!(known(&scene).await, all);
}
