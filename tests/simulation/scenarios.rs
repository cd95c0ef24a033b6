//! The rules of the records, sentence by sentence, and the test of each that fails where it is not kept. L is the lease,
//! G a run's grace when its lease is lost, M the margin.
//!
//! | sentence | test |
//! |---|---|
//! | **Registering.** All jobs of a table are registered in one batch at load | [`memory::all_jobs_are_registered_in_one_batch`] |
//! | … at reload | [`memory::a_job_that_comes_with_a_reload_is_registered_at_once`] |
//! | … and at once after the store's identity changed | [`memory::all_jobs_are_registered_again_once_the_store_is_another_one`] |
//! | A claim for a job that is not registered is refused | `conformance::claims::an_unregistered_job_is_refused_in_every_step` |
//! | An answer with an older revision changes nothing that a newer one said | `engine::tests::agenda::an_older_answer_does_not_undo_a_newer_one` |
//! | **Keeping.** Nothing expires by time | [`memory::nothing_expires_while_nobody_is_there`] |
//! | A tick is decided once it has a record, and stays so | `conformance::claims::a_finished_run_cannot_be_claimed_again`; in each world, `World::note_run` |
//! | A record is dropped only when final, in the step that raises the floor to it | `conformance::records::{old_final_records_go_and_a_late_claim_is_refused, an_open_run_is_never_dropped}`; in each world, `check::kept` |
//! | The floor tests absent records only | `conformance::claims::an_absent_tick_up_to_decided_through_is_too_old` |
//! | Records stay an hour at least | [`memory::records_stay_for_an_hour_and_not_for_ever`] |
//! | A job that nobody registered for 30 days goes as a whole | `conformance::records::only_idle_jobs_retire_and_then_as_a_whole` |
//! | The history is a separate list with an end | `conformance::records::the_history_is_newest_first_and_capped` |
//! | **Memory guard.** What the store is, is looked at with each connection | `redis_store::a_flushed_store_refuses_the_ticks_that_it_may_have_forgotten`, `cluster::amnesia` |
//! | After a loss the first tick after the new `since` runs | [`memory::after_a_flush_later_ticks_run_and_those_before_are_told_to_be_unknown`] |
//! | Claim, begin and takeover at or before `since` are refused, unless the owner spoke up | `conformance::guard::{ticks_that_a_restarted_store_may_have_forgotten_are_refused, a_claim_that_its_owner_asserts_can_begin, a_claim_that_its_owner_asserts_can_be_taken_over}` |
//! | A begin never makes a record | `conformance::begins::a_begin_never_makes_a_record` |
//! | An owner's word makes a record again | [`memory::a_run_that_the_store_forgot_ends_as_it_ended`] |
//! | … only above the floor and after a loss | `conformance::guard::{nothing_is_asserted_at_or_below_the_floor, nothing_is_asserted_that_was_not_forgotten}` |
//! | … and within the owner's own deadline | `engine::tests::guard::a_run_whose_lease_is_over_is_not_asserted` |
//! | A claim at or before `since` that was not begun ends as unknown | `conformance::guard::a_forgotten_tick_can_only_end_as_unknown` |
//! | … which its owner's word replaces | `conformance::guard::unknown_gives_way_to_the_owners_word` |
//! | What must not overlap begins after a silence of L + G + M | [`memory::after_a_loss_nothing_that_must_not_overlap_begins_before_the_silence_was_watched`] |
//! | Evictions are watched | [`twins`](super::twins)`::without_the_memory_guard_a_store_that_forgets_starts_ticks_twice` |
//! | **Leases.** Begin and renewal raise a number | `conformance::life::a_renewal_raises_the_number` |
//! | Claims that wait are renewed, too | [`slots::a_claim_that_waits_in_line_is_not_taken_over`] |
//! | A run that is seen unchanged for L is lost | [`leases::a_run_whose_owner_died_is_lost_after_a_lease_and_within_one_and_a_half`] |
//! | … by compare-and-set on owner, start, state and number | `conformance::settling::a_begun_run_is_lost_only_as_it_was_seen`; [`twins`](super::twins)`::without_a_compare_and_set_a_run_that_lives_is_called_lost` |
//! | … on the watcher's own boot clock | [`leases::a_step_of_all_wall_clocks_makes_no_run_lost`] |
//! | A lost run keeps its slot for G + M | [`leases::the_slot_of_a_lost_run_is_free_after_its_grace_and_the_margin`] |
//! | … or until its owner says that it ended | [`leases::the_word_of_the_owner_of_a_lost_run_is_kept_and_frees_the_slot`] |
//! | A rerun waits for L + G + M | [`leases::a_run_that_may_be_started_again_is_when_the_first_start_is_gone`] |
//! | A claim that is not begun is taken over | [`leases::a_claim_whose_owner_died_before_the_begin_is_taken_over_in_time`] |
//! | The owner counts from the first sending | `engine::tests::leases::{a_lease_counts_from_the_sending_of_what_was_confirmed, the_first_lease_counts_from_the_sending_of_the_begin}`, `model::twins::with_a_lease_counted_from_the_reply_a_run_is_alive_twice` |
//! | A stale token frees nothing | `conformance::slots::a_stale_end_frees_nothing` |
//! | The store's clock plays no part | [`leases::a_step_of_the_stores_clock_makes_no_run_lost`] |
//! | Open runs are known from claim answers | `engine::tests::watches::open_runs_are_learned_when_the_job_is_registered` |
//! | … from reading all jobs at start | [`leases::a_run_of_a_job_that_is_in_no_table_is_found_by_who_starts`] |
//! | … and from what members say of themselves | [`leases::a_run_of_a_job_that_is_in_no_table_is_found_by_who_met_its_owner`] |
//! | **Slot.** Taken by begin and freed by the end | `conformance::slots::a_begin_takes_the_slot_and_its_end_frees_it` |
//! | Held between attempts | [`slots::a_run_keeps_its_slot_between_its_attempts`] |
//! | An overlap is one with a run that lived after the tick; else the winner waits | [`slots::a_tick_whose_occupant_is_dead_waits_and_runs`] |
//! | A tick that would begin after a later one is superseded | `conformance::begins::a_tick_is_superseded_once_a_later_one_began`; in each world, `check::tokens` |
//! | `Replace`: the deadline is judged when the stop is asked for | [`slots::a_successor_begins_after_its_deadline_if_it_asked_in_time`] |
//! | … the newest waiter wins | `engine::tests::slots::a_waiting_run_that_a_later_one_overtakes_is_superseded` |
//! | Waiting holds no place | `engine::tests::slots::a_run_that_waits_holds_no_place` |
//! | What was stopped by a drain, or replaced, is not lost | [`slots::a_run_that_a_drain_stopped_is_not_started_again`], [`slots::a_run_is_replaced_when_it_is_gone`] |
//! | A rerun is judged by its starts: three at most | [`leases::a_run_whose_owners_die_is_started_three_times`] |
//! | **Audit.** `decided_through` advances over decided ticks only | `conformance::settling::decided_through_advances_over_decided_ticks_only` |
//! | A tick that nobody decided is settled after its deadline, once | [`audit::a_tick_that_nobody_was_there_for_is_missed_once`] |
//! | Settling is never too old | `conformance::settling::settling_is_never_too_old` |
//! | A long outage is settled as ranges, in which a claim is answered | [`audit::a_long_absence_is_a_few_ranges_and_a_claim_in_one_is_answered`] |
//! | A changed schedule settles what the former one owed | `conformance::schedules::ticks_of_a_former_schedule_stay_open_after_the_change`, `schedule_changes` |
//! | A store that lost everything begins a new history, and that is said | [`memory::a_store_that_lost_everything_begins_a_new_history_and_that_is_said`] |
//! | **Time.** Too early is judged first, by the store's clock | [`audit::a_clock_that_is_ahead_starts_nothing_early`] |
//! | After a step nothing is settled for L | [`audit::after_a_step_of_the_clock_nothing_is_settled_for_a_lease`] |
//! | … and the agenda is made anew | [`audit::a_clock_that_went_back_sees_its_instants_again_and_runs_none_twice`] |
//! | No instant of a replica's clock is kept | [`audit::no_instant_of_a_wrong_clock_is_kept`] |
//! | **Tables.** Replicas with different ones see it through presence | [`audit::replicas_with_different_tables_say_so_until_they_agree`] |
//! | … and through claims | `engine::tests::fleet::a_claim_under_another_definition_is_told_with_the_job` |
//! | **Runs by hand.** They have ids of their own | `conformance::orders::only_an_order_makes_a_manual_run`, `cluster::orders::a_run_by_hand_runs_once_and_two_orders_with_one_key_are_one` |
//! | … and a key per request | `conformance::orders::{two_orders_with_one_key_are_one_run, a_key_is_known_for_as_long_as_its_run}` |
//! | They are accepted only with their record | `conformance::orders::an_ordered_run_is_there_for_one_of_all` |
//! | They obey the slot and consume no tick | `conformance::orders::a_manual_run_takes_the_slot_and_no_tick` |

mod audit;
mod leases;
mod memory;
mod slots;

use super::check;
use super::table::plain;
use super::world::Child;
use super::world::EPOCH;
use super::world::Line;
use super::world::Micros;
use super::world::SECOND;
use super::world::What;
use super::world::World;
use onecron::engine::Notice;
use onecron::job::*;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;

/// The lease of all scenarios.
const LEASE: Micros = 5 * SECOND;
/// A lost run's grace and the margin: 2 s, and 1 s + 2 % of the lease + 2 s.
const GRACE_AND_MARGIN: Micros = 2 * SECOND + 3_100_000;

/// A job that ticks so often and whose runs last so many seconds.
pub fn job(name: &str, seconds: u64, lasts: u64) -> JobSpec {
    let schedule = Schedule::parse(&format!("@every {seconds}s"), &Zone::utc(), name).unwrap();
    JobSpec { description: format!("lasts {lasts}"), timeout: None, ..plain(name, schedule) }
}

fn rerunning(name: &str, seconds: u64, lasts: u64) -> JobSpec {
    JobSpec { lost_run_policy: LostRunPolicy::Rerun, ..job(name, seconds, lasts) }
}

pub fn run(name: &str, seconds: i64) -> RunKey {
    RunKey::new(JobName::new(name).unwrap(), Tick::from_seconds(EPOCH + seconds))
}

const fn at(seconds: u64) -> Micros {
    seconds * SECOND
}

impl World {
    fn starts(&self, run: &RunKey) -> Vec<&Child> {
        self.children.iter().filter(|child| child.run == *run).collect()
    }

    fn outcome(&self, run: &RunKey) -> Option<Outcome> {
        self.record_of(run)?.outcome
    }

    fn reason(&self, run: &RunKey) -> String {
        self.record_of(run).unwrap_or_else(|| panic!("{run} has no record")).reason
    }

    fn said(&self, is_it: impl Fn(&Notice) -> bool) -> Vec<&Line> {
        self.lines.iter().filter(|line| is_it(&line.notice)).collect()
    }

    /// When the run was called lost: once.
    fn lost_at(&self, run: &RunKey) -> Micros {
        let lost = self.said(|notice| matches!(notice, Notice::RunLost { facts, .. } if facts.run == *run));
        assert_eq!(lost.len(), 1, "{lost:#?}");
        lost[0].at
    }

    /// Lets time pass until the run stands so, and says which replica has it.
    pub fn until(&mut self, run: &RunKey, state: RunState) -> usize {
        for _ in 0..100_000 {
            self.run_until(self.now + 100);
            let found = self.record_of(run).filter(|record| record.state == state);
            if let Some(record) = found {
                return (0..9).find(|replica| record.owner.as_str().starts_with(&format!("r{replica}-"))).unwrap();
            }
        }
        panic!("{run} is never {state:?}: {:?}", self.record_of(run));
    }

    fn now_happens(&mut self, what: What) {
        self.put(self.now, what);
        self.run_until(self.now + 1);
    }

    /// To the end; and what must hold in every world, holds in this one.
    fn ends_at(&mut self, seconds: u64) {
        self.run_until(at(seconds));
        self.finish();
        check::all(self).unwrap();
    }
}
