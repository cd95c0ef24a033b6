//! What every store must do, as facts; each case runs against each store.

mod begins;
mod claims;
mod guard;
mod life;
mod members;
mod orders;
mod races;
mod records;
mod schedules;
mod settling;
mod slots;
mod stale;
mod stops;

use crate::support::bench::Bench;
use crate::support::bench::Kind;
use crate::support::scene::Scene;
use std::future::Future;

/// Cases under which the store goes away: they need one of their own.
const RESTARTS: [&str; 4] = [
    "a_store_that_restarted_takes_no_step_before_the_job_is_registered_again",
    "ticks_that_a_restarted_store_may_have_forgotten_are_refused",
    "a_restart_that_lost_nothing_that_a_replica_knows_of_is_no_loss_of_decisions",
    "a_store_tells_what_it_is",
];

/// Races move megabytes, which takes the client's TLS minutes where it is built without optimisation; who wins is decided
/// in the server, behind it.
const NOT_BY_TLS: &str = "a_thousand_ticks_have_one_winner_each";

async fn run<F, R>((kind, name): (Kind, &str), case: F)
where
    F: FnOnce(Scene) -> R,
    R: Future<Output = ()>,
{
    if kind == Kind::RedisTls && name == NOT_BY_TLS {
        println!("SKIPPED: it takes minutes by TLS");
        return;
    }
    let bench = if RESTARTS.contains(&name) { Bench::start_alone(kind) } else { Bench::start(kind) };
    if let Some(bench) = bench {
        case(Scene::new(bench).await).await;
    }
}

macro_rules! cases {
    ($store:ident, $kind:ident, $($part:ident: $($case:ident)+;)+) => {
        mod $store {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::run((super::Kind::$kind, stringify!($case)), super::$part::$case).await;
                }
            )+)+
        }
    };
}

macro_rules! conformance {
    ($($cases:tt)+) => {
        cases!(memory, Memory, $($cases)+);
        cases!(sqlite, Sqlite, $($cases)+);
        cases!(redis, Redis, $($cases)+);
        cases!(valkey, Valkey, $($cases)+);
        cases!(postgres, Postgres, $($cases)+);
        cases!(pgbouncer, PgBouncer, $($cases)+);
        cases!(mariadb, MariaDb, $($cases)+);
        cases!(etcd, Etcd, $($cases)+);
        cases!(consul, Consul, $($cases)+);
        cases!(memcached, Memcached, $($cases)+);
        cases!(redis_tls, RedisTls, $($cases)+);
        cases!(redis_account, RedisAccount, $($cases)+);
        cases!(redis_sentinel, RedisSentinel, $($cases)+);
        cases!(redis_cluster, RedisCluster, $($cases)+);
    };
}

conformance! {
    claims:
        a_run_with_a_delay_is_too_early_until_it_is_due
        a_free_tick_is_won_and_recorded
        a_resent_claim_is_won_again
        a_claim_of_somebody_elses_run_is_held_and_names_the_holder
        a_finished_run_cannot_be_claimed_again
        a_question_without_taking_leaves_no_record
        an_unregistered_job_is_refused_in_every_step
        a_tick_ahead_of_the_stores_clock_is_too_early
        a_new_job_forgets_what_came_before_it
        an_absent_tick_up_to_decided_through_is_too_old
        an_abandoned_run_is_free_for_anybody
        a_waiting_claim_is_taken_over_only_as_it_was_seen
        a_renewed_claim_is_not_taken_over
        a_begun_run_is_not_taken_over
        a_lost_run_is_taken_over_only_if_it_may_run_again_and_as_it_was_seen
        a_run_is_started_three_times_at_most
        a_takeover_writes_the_new_owners_terms
        whether_a_run_may_run_again_is_said_by_the_claim_under_which_it_first_begins
        a_question_never_takes_over
        answers_list_the_jobs_open_runs_oldest_first
        no_job_is_paused_by_itself;
    begins:
        a_begin_counts_the_start_and_notes_the_token
        a_resent_begin_begins_once
        another_request_of_the_owner_is_its_next_attempt
        an_owner_that_was_taken_over_cannot_begin
        a_begin_never_makes_a_record
        a_closed_run_cannot_begin
        a_given_back_run_cannot_begin
        a_lost_run_cannot_begin
        a_tick_is_superseded_once_a_later_one_began
        an_attempt_given_back_is_superseded_once_a_later_tick_began
        a_retry_that_holds_its_slot_is_not_superseded
        a_retry_beside_later_runs_is_not_superseded_where_runs_may_overlap;
    slots:
        a_busy_slot_tells_whether_its_occupant_lived_after_the_run_was_due
        a_begin_takes_the_slot_and_its_end_frees_it
        a_busy_slot_names_its_occupant
        a_busy_slot_tells_whether_its_occupant_lived_after_the_tick
        asking_for_a_busy_slot_is_a_sign_of_life
        runs_that_may_overlap_leave_the_slot_alone
        giving_back_frees_the_slot
        the_slot_of_a_lost_run_drains_until_its_owner_says_that_it_ended
        the_slot_of_a_lost_run_is_freed_by_who_saw_it_drained
        a_stale_end_frees_nothing
        a_run_that_is_taken_over_keeps_its_slot
        a_slot_is_never_held_by_two
        asking_takes_nothing
        one_run_waits_in_line
        who_waits_in_line_is_decided_by_who_asked_first
        a_later_tick_does_not_jump_the_line
        of_those_that_replace_the_newest_wins
        a_waiting_run_that_was_given_back_still_waits
        a_run_that_began_under_allow_is_in_the_way_until_it_is_over
        a_run_that_began_under_forbid_keeps_its_slot_when_the_table_says_allow
        a_takeover_by_another_table_keeps_the_slot
        a_retry_that_holds_its_slot_does_not_wait_for_a_run_beside_it;
    stops:
        a_stop_is_told_with_the_next_renewal
        a_stop_compares_nothing_but_openness
        a_stopped_run_ends_as_its_owner_says
        a_claim_whose_stop_was_asked_for_is_settled_and_not_begun
        a_lost_run_whose_stop_was_asked_for_is_not_started_again
        a_lost_run_that_was_taken_over_is_stopped_before_its_next_start
        what_somebody_asked_to_stop_is_no_failure;
    life:
        a_renewal_raises_the_number
        a_waiting_claim_can_be_renewed
        only_the_owner_at_its_start_renews
        a_renewal_tells_what_became_of_the_run
        an_end_is_recorded_with_all_that_is_known
        a_rerun_that_is_left_alone_was_lost
        a_resent_end_is_recorded_once
        nothing_that_did_not_begin_can_end
        only_the_owner_at_its_start_ends_a_run
        an_end_after_lost_is_kept_beside_it
        an_end_after_drained_is_kept_beside_it
        the_owners_account_of_a_lost_run_makes_a_rerun_needless
        a_lost_run_that_may_run_again_is_given_back_by_its_owner
        an_end_after_a_takeover_is_fenced
        a_run_is_given_back_by_its_owner_only
        a_resent_giving_back_is_released_again
        failures_are_counted_until_a_success
        an_earlier_success_never_replaces_a_later_one;
    settling:
        an_absent_tick_is_settled_once
        a_tick_is_not_settled_before_its_deadline
        settling_is_never_too_old
        a_range_is_settled_once_and_is_one_entry_of_the_history
        a_claim_inside_a_settled_range_is_told_how_it_ended
        a_range_with_a_record_in_it_is_not_settled
        a_range_follows_what_is_decided
        a_range_is_not_settled_before_its_last_deadline
        what_is_decided_is_not_settled_again
        an_owner_settles_its_own_claim
        nobody_settles_anothers_claim_as_its_own
        a_dead_claim_is_settled_only_as_it_was_seen
        a_begun_run_is_lost_only_as_it_was_seen
        a_watcher_whose_reply_was_lost_learns_that_it_recorded_the_loss
        a_run_that_may_run_again_is_lost_without_an_outcome_until_drained
        decisions_that_do_not_fit_change_nothing
        a_given_back_run_is_settled_only_as_it_was_seen
        an_attempt_that_nobody_goes_on_with_ends_as_lost
        decided_through_advances_over_decided_ticks_only
        a_refused_settlement_helps_decided_through_along;
    records:
        old_final_records_go_and_a_late_claim_is_refused
        two_records_go_with_one_step_at_most
        an_open_run_is_never_dropped
        nothing_above_decided_through_is_dropped
        young_records_stay
        a_registration_is_fresh_once_and_follows_the_definition
        a_changed_schedule_is_told_to_whoever_registers_it_first
        every_change_of_a_job_raises_its_revision
        the_history_is_newest_first_and_capped
        output_is_kept_for_the_newest_successes_and_failures
        a_history_of_nothing_is_empty
        odd_and_long_texts_come_back_as_they_went
        long_names_work
        namespaces_do_not_see_one_another
        all_jobs_are_listed
        only_idle_jobs_retire_and_then_as_a_whole
        a_job_with_an_open_run_does_not_retire
        the_store_has_a_clock
        the_store_tells_what_it_is_worth
        steps_of_a_batch_see_one_another
        an_empty_batch_is_answered
        a_batch_of_five_hundred_is_answered_in_order;
    schedules:
        ticks_of_a_former_schedule_stay_open_after_the_change
        a_former_schedule_is_kept_as_it_was_with_the_moment_of_the_change
        nobody_passes_a_change_that_it_does_not_know_of
        a_range_ends_where_the_schedule_changed
        what_is_decided_passes_a_change_when_a_replica_says_that_nothing_is_owed
        nothing_is_passed_that_may_be_owed
        a_former_schedule_goes_when_it_is_passed_and_the_last_one_stays
        a_change_waits_while_too_many_former_schedules_owe_ticks
        a_schedule_that_comes_and_goes_at_once_leaves_the_one_before_as_it_was
        a_store_that_lost_the_job_goes_on_from_what_a_replica_knew_of_its_schedules;
    members:
        a_member_sees_itself_and_the_others_by_name
        a_new_presence_takes_the_place_of_the_one_before
        who_only_looks_is_not_there
        a_presence_comes_back_as_it_went
        a_member_is_removed_only_as_it_was_seen
        who_leaves_is_not_there_any_more
        members_of_other_namespaces_are_not_seen
        members_that_meet_at_once_all_see_one_another_at_last;
    guard:
        a_store_that_restarted_takes_no_step_before_the_job_is_registered_again
        ticks_that_a_restarted_store_may_have_forgotten_are_refused
        a_restart_that_lost_nothing_that_a_replica_knows_of_is_no_loss_of_decisions
        a_new_job_is_no_loss
        a_job_that_a_replica_knew_and_the_store_does_not_is_a_loss
        a_replica_that_knew_another_history_tells_of_the_loss
        a_complaint_counts_once
        what_a_replica_knew_to_be_decided_stays_decided
        a_claim_that_its_owner_asserts_can_begin
        a_claim_that_its_owner_asserts_can_be_taken_over
        a_run_that_its_owner_asserts_has_its_record_and_its_slot_again
        a_resent_assertion_is_a_renewal
        nothing_is_asserted_that_was_not_forgotten
        nothing_is_asserted_at_or_below_the_floor
        an_older_state_gives_way_to_the_owners_word_and_a_newer_one_does_not
        a_forgotten_tick_can_only_end_as_unknown
        an_asserted_claim_may_end_as_its_owner_says
        unknown_gives_way_to_the_owners_word
        a_lost_record_can_be_settled_as_unknown_below_decided_through
        no_run_that_must_not_overlap_begins_before_the_silence_was_watched
        the_longest_silence_of_all_tables_counts
        runs_that_may_overlap_do_not_wait_for_the_silence
        a_slot_that_was_asserted_is_not_taken_by_another_word
        a_slot_of_a_run_that_began_after_the_loss_is_not_taken_by_a_late_word
        a_run_that_goes_on_without_its_slot_still_keeps_others_out
        a_store_tells_what_it_is;
    orders:
        an_ordered_run_is_there_for_one_of_all
        only_an_order_makes_a_manual_run
        two_orders_with_one_key_are_one_run
        a_key_is_known_for_as_long_as_its_run
        a_manual_run_takes_the_slot_and_no_tick
        an_attempt_given_back_is_superseded_once_a_manual_run_began
        a_range_is_settled_across_manual_runs
        a_run_that_was_ordered_and_cancelled_does_not_begin
        nothing_of_a_paused_job_is_claimed_begun_or_ordered
        a_pause_that_is_written_again_stays_as_it_is
        the_mark_that_pauses_all_is_read_by_all;
    stale:
        a_job_is_called_stale_by_one_of_all
        a_job_is_called_stale_again_when_it_succeeded_since
        ticks_that_nobody_ran_are_counted_until_a_success
        a_job_is_not_called_stale_before_its_time_by_the_stores_clock
        a_job_without_a_success_is_stale_so_long_after_the_store_first_knew_it
        one_of_many_who_call_a_job_stale_at_once_is_the_one;
    races:
        only_one_of_many_concurrent_claims_wins
        a_thousand_ticks_have_one_winner_each
        a_counter_without_a_lock_of_its_own_counts_right
        a_takeover_has_one_winner
        a_settlement_has_one_author;
}
