//! The clauses of the contract, one module per part. Each is a function that panics when the store under test
//! breaks it. The list in `for_each_clause` is the only one: tests, run-time reports and names come from it,
//! and a test fails when a clause is missing in it.

pub mod aging;
pub mod amend;
pub mod at_once;
pub mod begin;
pub mod calls;
pub mod cancel;
pub mod capacity;
pub mod claim;
pub mod control;
pub mod duties;
pub mod ended;
pub mod enqueue;
pub mod fence;
pub mod follow_ups;
pub mod handles;
pub mod keep;
pub mod keys;
pub mod late;
pub mod leases;
pub mod list;
pub mod progress;
pub mod promote;
pub mod prune;
pub mod queues;
pub mod reap;
pub mod records;
pub mod remove;
pub mod replace;
pub mod rules;
pub mod settle;
pub mod unique;
pub mod wakeup;

/// Calls a macro with some arguments and the list of all clauses by part.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_clause {
    (($($callback:tt)*) $arguments:tt) => {
        $($callback)*! { $arguments
            enqueue {
                a_new_job_reads_back
                a_job_without_a_time_is_ready
                a_job_for_an_instant_is_scheduled
                endless_durations_are_kept
                wild_policies_are_kept
                a_batch_keeps_its_order
                a_batch_may_be_large_or_empty
                a_repeat_changes_nothing
                a_repeat_may_have_other_options
                an_id_may_stand_twice_in_a_batch
                a_taken_id_refuses_the_batch
                an_id_is_taken_in_every_queue
                a_payload_above_the_cap_refuses_the_batch
                a_repeat_above_a_lowered_cap_is_answered
                payload_bytes_are_kept
                names_use_their_whole_alphabet
                the_id_of_a_removed_job_is_free
                unknown_ids_are_missing
                of_many_at_once_one_is_new
                a_dropped_call_is_whole_or_nothing
            }
            calls {
                a_repeated_call_stores_nothing
                a_repeated_call_is_known_when_its_jobs_are_gone
                a_repeated_call_may_name_several_queues
                a_refused_call_is_not_remembered
                of_repeats_at_once_one_stores
            }
            claim {
                hands_out_a_job_with_all_it_needs
                goes_by_priority_then_first_in_first_out
                goes_in_the_order_of_a_batch
                goes_by_due_instant
                heeds_its_limits
                may_ask_for_nothing
                heeds_its_bytes
                heeds_its_bytes_across_kinds
                takes_only_its_kinds
                serves_many_kinds_in_one_order
                finds_its_kinds_behind_many_others
                serves_queues_in_order
                hands_out_each_job_once
                gives_every_claim_its_own_fence
                fences_have_the_nonce_of_the_request
                refuses_a_lost_lease
                a_dropped_call_leaves_its_jobs_to_the_lease
                a_returned_job_keeps_its_place
                counts_attempts_to_the_end_of_their_range
            }
            promote {
                a_claim_promotes_on_time
                a_claim_tells_what_is_due_next
                a_claim_moves_its_queues_along
                a_claim_moves_a_bounded_number
                a_promotion_moves_every_queue
                an_expired_job_is_never_handed_out
                a_started_job_does_not_expire
                a_returned_job_may_expire
                many_expired_jobs_do_not_slip_through
                promotion_does_not_look_at_kinds
                tidying_changes_no_job
            }
            begin {
                a_claimed_job_begins_by_its_fence
                each_attempt_begins_for_itself
                attempts_of_a_batch_are_apart
                what_has_begun_goes_on_as_ever
            }
            settle {
                completed_keeps_its_output
                no_output_is_not_an_empty_one
                retry_waits_by_the_policy
                retry_without_delay_is_ready
                delays_are_kept_to_the_microsecond
                every_outcome_leads_where_the_judge_says
                used_up_attempts_are_the_end
                a_snooze_costs_no_attempt
                the_newest_attempts_are_kept
                error_texts_are_cut
                an_output_above_the_cap_is_refused
                items_of_a_batch_are_apart
                an_unreaped_attempt_may_still_settle
                a_dropped_call_is_whole_or_nothing
            }
            late {
                a_reaped_attempt_may_still_end
                only_an_end_counts
                a_forged_fence_writes_nothing
                what_happened_since_wins
                only_a_reaped_attempt_is_late
                a_promoted_job_may_still_end
                the_queue_decides_as_ever
            }
            fence {
                a_forged_fence_writes_nothing
                another_queue_writes_nothing
                an_ended_attempt_writes_nothing
                an_attempt_before_a_retry_writes_nothing
                an_attempt_that_was_reaped_writes_nothing
                an_attempt_before_a_retry_by_hand_writes_nothing
                a_missing_job_is_fenced
                a_fence_belongs_to_one_job
                of_many_writes_at_once_one_counts
            }
            progress {
                the_newest_report_is_kept
                a_report_above_the_cap_is_refused
                reports_of_a_batch_are_apart
            }
            leases {
                an_open_lease_reads_back
                leases_are_listed_newest_first
                a_renewed_lease_lives
                a_renewal_may_shorten_a_lease
                a_lost_lease_stays_lost
                a_repeated_open_changes_nothing
                a_label_is_any_text
                a_closed_lease_is_over
                a_sweep_forgets_idle_lost_leases
                extreme_lengths_are_fine
                a_claim_is_found_by_its_nonce
                what_a_lost_claim_took_is_given_back
            }
            reap {
                lost_jobs_are_found
                a_stalled_job_goes_back
                what_never_began_did_not_stall
                a_living_lease_is_not_reaped
                a_late_reaper_takes_nothing
                leases_are_not_mixed_up
                too_many_stalls_are_the_end
                a_stall_may_use_the_last_attempt
                stalls_and_attempts_are_counted_apart
                a_closed_lease_can_be_reaped
            }
            cancel {
                a_waiting_job_is_cancelled_at_once
                a_running_job_is_asked_through_its_lease
                a_put_back_heeds_the_request
                a_reaper_heeds_the_request
                an_end_wins_over_the_request
                a_request_ends_with_its_attempt
                ids_of_a_batch_are_apart
            }
            amend {
                a_retried_job_begins_anew
                a_cancelled_job_can_be_retried
                a_retried_job_does_not_expire_again
                a_scheduled_job_can_be_sent_now
                a_retried_job_waits_its_turn
                other_states_are_not_retried
                a_deleted_job_is_gone
                a_running_job_is_not_deleted
                only_waiting_jobs_are_withdrawn
                what_has_changed_since_is_left_alone
                what_is_as_it_was_seen_is_changed
            }
            prune {
                by_age
                by_count
                by_count_and_acceptance
                by_both
                each_state_and_queue_for_itself
                open_jobs_stay
                up_to_a_limit
                by_default
            }
            duties {
                one_holder_has_a_duty
                a_duty_that_ran_out_goes_to_the_next
                a_duty_that_lasts_too_long_is_taken
                a_duty_is_given_back_by_its_holder
                of_many_at_once_one_has_it
            }
            keep {
                a_completed_job_leaves_nothing
                a_dead_or_cancelled_job_leaves_nothing
                a_reaped_job_leaves_nothing
                a_removed_job_leaves_its_lease
                a_repeat_is_fenced_and_the_id_is_free
                a_refused_output_removes_nothing
                each_state_and_queue_for_itself
                other_ends_wait_for_prune
                a_removal_rings
                a_large_batch_leaves_nothing
            }
            list {
                states_are_those_of_the_jobs
                shows_jobs_as_they_are
                heeds_its_filter
                pages_make_up_the_whole
                limits_are_heeded
                jobs_may_come_between_pages
                jobs_may_go_between_pages
                jobs_may_change_between_pages
                a_rare_match_is_found
                a_bad_cursor_is_refused
                a_cursor_is_a_position
            }
            ended {
                by_their_ends
                pages_make_up_the_whole
                what_goes_leaves_the_order
                every_end_has_a_place
            }
            queues {
                one_queue_is_found_by_its_name
                a_definition_reads_back
                a_bad_definition_is_refused
                a_queue_is_there_while_it_holds_jobs
                queues_are_listed_by_name
                counts_follow_every_change
                counts_ignore_what_was_not_stored
            }
            remove {
                an_empty_queue_goes_with_its_definition
                an_unknown_queue_is_missing
                a_queue_with_a_job_stays
                a_queue_goes_whatever_it_held_before
                a_removed_queue_comes_back
                a_definition_of_before_does_not_count
                a_removal_and_an_enqueue_agree
            }
            rules {
                a_queue_with_a_newer_rule_takes_no_job
                a_queue_with_a_newer_rule_is_not_claimed_from
                a_newer_definition_stays
                what_was_begun_may_end
                a_queue_comes_back_when_the_rule_goes
            }
            replace {
                a_late_outcome_ends_no_replaced_job
                a_waiting_job_is_replaced
                payloads_of_any_length_are_replaced
                a_debounced_job_waits_from_the_newest
            }
            unique {
                one_job_holds_a_key
                queues_have_keys_of_their_own
                until_the_start
                a_known_job_takes_no_key
                until_the_end
                every_end_frees_a_key
                a_job_that_is_not_kept_frees_its_key
                a_reaped_job_holds_its_key
                for_a_window
                for_a_slot
                old_windows_are_forgotten
                a_key_may_stand_twice_in_a_batch
                a_refused_call_takes_no_key
                a_payload_is_tested_before_its_key
                a_repeated_call_is_answered
                a_retried_job_takes_its_key_again
                a_removed_queue_holds_no_key
                of_many_at_once_one_is_new
                an_enqueue_and_an_end_agree
            }
            control {
                a_paused_queue_gives_nothing
                a_pause_ends_by_itself
                a_paused_kind_is_passed_over
                a_definition_is_compared_before_it_changes
                bad_rules_are_refused
                concurrency_is_that_of_all_workers
                a_reaped_job_makes_room
                claims_at_once_heed_the_concurrency
                a_queue_with_rules_gives_what_can_begin
                a_sliding_rate_holds_in_any_span
                a_fixed_rate_begins_anew
                a_bucket_fills_evenly
                a_queue_shows_what_its_rate_permits
                limits_that_are_far_are_told
                a_rate_may_change
                claims_at_once_heed_the_rate
                rules_hold_together
                those_who_wait_hear_of_room
                order_and_content_are_as_ever
            }
            keys {
                a_key_reads_back
                a_queue_without_keys_refuses_them
                a_queue_keeps_its_keys
                keys_take_turns
                a_claim_takes_parts
                a_new_key_begins_where_the_others_are
                a_heavier_key_has_more_turns
                priority_is_within_a_key
                jobs_without_a_key_have_half_of_the_claims
                a_key_has_its_concurrency
                a_reaped_job_makes_room_for_its_key
                claims_at_once_heed_the_keys
                a_key_has_its_rate
                a_rate_of_keys_may_change
                a_paused_key_is_passed_over
                rules_of_the_queue_hold_too
                limits_are_named
                other_kinds_are_passed_over
                a_job_with_a_key_has_its_life
                those_who_wait_hear_of_a_free_key
                many_keys_are_served
                bad_rules_for_keys_are_refused
            }
            aging {
                a_level_is_worth_its_time
                fresh_jobs_have_the_same_order
                of_one_rank_the_higher_level_goes_first
                nothing_waits_longer_than_its_bound
                the_ends_of_the_range_have_their_ranks
                kinds_have_one_order
                the_order_changes_with_the_definition
                jobs_of_a_key_are_aged
                many_jobs_of_a_key_are_aged
                what_comes_back_has_its_place
                many_levels_are_all_served
                a_job_that_does_not_fit_ends_the_claim
                other_rules_hold_too
                claims_at_once_share_out_the_levels
                a_bad_worth_is_refused
            }
            capacity {
                a_full_queue_takes_no_job
                a_call_fits_as_a_whole
                what_is_known_needs_no_room
                what_comes_back_has_room
                jobs_with_a_key_count
                a_bad_capacity_is_refused
            }
            wakeup {
                work_rings
                a_promotion_names_its_queue
                cancel_rings
                finish_rings
                a_ring_before_the_wait_is_kept
                a_ring_comes_after_its_job
                those_who_wait_get_every_job_once
                every_listener_hears
            }
            records {
                a_record_reads_back
                a_record_is_of_its_queue
                an_expectation_guards_a_record
                a_repeated_put_is_known
                a_write_is_whole_or_nothing
                a_record_expires
                a_list_goes_by_prefix
                a_page_of_large_records_ends_early
                totals_tell_how_much_there_is
                too_much_is_refused
                records_outlive_their_queue
                of_many_writers_one_succeeds
                jobs_come_with_records
            }
            follow_ups {
                an_end_brings_what_follows
                an_attempt_writes_while_it_runs
                a_stale_attempt_writes_nothing
                a_refused_follow_up_refuses_the_end
                items_of_a_call_are_apart
                many_attempts_are_followed_at_once
                what_is_cancelled_is_not_followed
                an_attempt_that_is_put_back_is_followed
                a_full_queue_takes_what_follows
                a_follow_up_may_be_there_already
                an_end_that_is_not_kept_is_followed
                a_reaper_brings_what_follows
                a_late_end_brings_what_follows
                what_follows_rings
                a_dropped_write_is_whole_or_nothing
            }
            handles {
                see_the_same_jobs
                share_out_the_jobs
                heed_the_same_fences
                hear_each_other
            }
            at_once {
                of_overlapping_batches_each_job_is_new_once
                of_batches_that_take_the_same_ids_one_is_accepted
                a_new_queue_counts_both
                a_queue_may_come_and_go
                claims_of_few_bytes_share_out_the_jobs
                claims_do_not_hand_out_what_expires
                a_cancel_and_a_claim_agree
                a_delete_and_a_claim_agree
                a_claim_and_a_close_agree
                of_overlapping_settlements_one_counts
                a_cancel_and_an_outcome_agree
                of_two_reapers_one_counts
                of_two_retries_one_counts
                promotions_share_the_work
                prunes_leave_what_is_kept
            }
        }
    };
}

macro_rules! names {
    (() $($part:ident { $($clause:ident)* })*) => {
        &[$($(concat!(stringify!($part), "::", stringify!($clause))),*),*]
    };
}

/// Every clause as `part::clause`.
pub const NAMES: &[&str] = for_each_clause! { (names) () };
