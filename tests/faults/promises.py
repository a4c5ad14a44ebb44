"""The promises of docs/explanation/guarantees.md, and the tests that hold picohook to each."""

from __future__ import annotations

PROMISES: dict[str, tuple[str, ...]] = {
    "1. Every question ends in time": (
        "test_P7_a_hook_that_never_reads_its_stdin_delays_only_its_own_calls",
        "test_F4_a_byte_at_a_time_does_not_move_the_deadline",
        "test_C5_a_wall_clock_that_jumps_moves_no_deadline",
        "test_every_call_ends_once_and_no_yes_is_made_up",
        "test_C1_a_call_cancelled_at_any_point_leaves_no_caller_waiting_and_the_host_intact",
    ),
    "2. An answer belongs to its question": (
        "TestConversation",
        "test_R3_an_answer_to_a_request_that_was_not_sent_yet_matches_nothing",
        "test_R4_output_of_the_old_process_cannot_answer_for_the_new_one",
        "test_J8_R5_a_wrong_id_is_dropped",
    ),
    "3. Approved means yes": (
        "test_A2_only_true_approves",
        "test_A1_A2_S11_anything_but_a_yes_denies_with_its_cause",
        "test_A3_a_tool_runs_only_if_every_process_that_is_asked_approves",
        "test_A9_a_yes_after_the_deadline_does_not_undo_the_denial",
        "test_approvers",
    ),
    "4. What was approved is what runs": (
        "test_a_function_behind_the_guard_that_edits_in_place_makes_the_guard_be_asked_again",
        "test_a_hook_that_keeps_its_question_cannot_change_it_later",
        "test_a_hook_that_keeps_its_answer_cannot_change_it_later",
        "test_a_function_that_runs_on_after_its_deadline_changes_nothing",
        "test_the_programs_changes_to_its_call_while_a_guard_decides_do_not_count",
        "test_asked_alone_about_a_call_that_is_changed_meanwhile_the_stage_denies",
        "test_a_call_that_a_listener_changes_does_not_run",
        "test_a_guard_is_asked_again_unless_only_the_embedder_can_have_written_the_turn",
        "test_a_guard_is_asked_again_about_a_call_that_was_changed_around_a_pause",
        "test_A5_arguments_that_an_approver_changes_in_place_are_denied",
        "test_A5_a_hook_that_outlives_its_deadline_cannot_change_the_call",
        "test_A5_A6_filters_approvers_and_the_tool_get_the_call_as_a_process_edited_it",
    ),
    "5. A failed interceptor changes nothing": (
        "test_A7_an_action_that_the_stage_does_not_have_counts_as_a_failure",
        "test_A8_a_hook_that_dies_counts_as_its_settings_say",
        "test_interceptors",
    ),
    "6. No process is left behind": (
        "test_P10_P11_P13_C2_no_descendant_outlives_the_host",
        "test_a_hostile_hook_cannot_free_itself_of_the_namespace",
        "test_P13_a_process_that_drops_its_mark_still_ends_with_its_hook",
        "test_C2_a_forked_child_gets_a_clear_error_and_leaves_the_parents_hooks_alone",
        "test_S9_C3_a_host_cancelled_at_any_point_from_its_start_to_its_end_leaves_nothing",
        "test_P4_one_that_ignores_the_end_of_its_stdin_and_term_is_killed_after_its_grace",
        "test_for_a_whole_host_it_takes_less_than_15_mb_of_memory",
    ),
    "7. Memory is bounded": (
        "test_F1_an_endless_line_is_never_held_beyond_the_limit",
        "test_F1_no_byte_is_looked_at_twice_however_slowly_a_long_line_arrives",
        "test_F10_the_outbound_queue_is_bounded",
        "test_events_that_wait_for_an_observer_are_bounded_in_bytes_too",
        "test_the_end_of_a_host_leaves_no_cycles_of_objects_behind",
        "test_a_client_of_a_server_that_has_ended_is_freed_at_once",
        "test_P8_a_flood_on_stderr_is_drained_capped_and_rate_limited_and_stdout_still_works",
    ),
    "8. Hooks do not delay each other, and observers delay nothing": (
        "test_R10_a_flood_on_stdout_is_a_kill_and_the_next_hook_is_served_meanwhile",
        "test_a_slow_observer_never_delays_the_agent_and_its_dropped_events_are_counted",
        "test_S12_S11_a_hook_that_cannot_start_delays_neither_the_others_nor_a_call",
    ),
    "9. Restarts leak nothing": (
        "test_promise_9_thirty_restarts_leave_no_growth",
        "test_promise_9_thirty_failed_starts_leave_no_growth",
        "test_after_30_restarts_descriptors_threads_and_zombies_are_what_they_were",
    ),
    "10. A crash loop ends": (
        "test_S10_past_the_start_limit_it_is_failed_visibly_and_approvals_are_denied_at_once",
        "test_S10_failed_is_latched_when_the_window_has_passed",
    ),
    "11. Nothing is sent twice": (
        "test_C4_a_restart_fails_the_calls_in_flight_at_once_and_replays_none",
        "test_every_call_ends_once_and_no_yes_is_made_up",
    ),
    "12. A configuration that was found runs nothing until it is trusted": (
        "test_X3_a_project_that_is_not_trusted_is_refused_and_nothing_runs",
        "test_X4_a_script_that_changes_while_it_runs_is_not_started_again",
        "test_X4_a_script_that_is_swapped_and_back_is_asked_nothing_and_the_right_one_is_started_again",
        "test_X4_a_compiled_program_that_is_swapped_after_the_look_never_runs",
        "test_X4_a_function_whose_file_is_swapped_is_never_run",
        "test_X4_a_command_that_does_not_show_its_files_is_refused_with_the_way_out",
        "test_X6_a_link_turned_to_another_script_while_it_runs_is_not_started_again",
        "test_X3_depth_and_its_memory_are_bounded_in_every_format",
        "test_a_dangerous_configuration_is_refused_even_if_it_is_trusted_and_nothing_runs",
    ),
    "13. A hook gets only what it needs": (
        "test_X1_the_environment_has_an_allowlist_and_the_hooks_own_variables",
        "test_P18_a_hook_has_the_three_standard_descriptors_and_no_other",
        "test_X4_P18_a_compiled_program_is_started_by_descriptor_whatever_its_path_means_by_then",
    ),
    "14. A hook's text is only text": (
        "test_L2_text_of_a_hook_reaches_logs_traces_and_reasons_without_control_characters",
        "test_A10_a_hooks_text_is_cut_to_its_limit_and_escaped_where_people_read_it",
        "test_L3_payloads_are_never_logged",
    ),
    "15. The log changes no outcome": ("test_L1_a_log_that_fails_changes_nothing_and_is_counted",),
    "16. asyncio and trio behave the same": ("test_a_callback_runs_when_there_is_room_while_there_is_more_to_write",),
    "17. Clients of a sidecar do not affect each other": (
        "test_the_calls_of_a_client_that_vanishes_are_cancelled_and_those_of_others_are_not",
        "test_a_line_that_is_too_long_is_answered_and_ends_only_its_own_connection",
        "test_clients_that_vanish_without_reading_do_not_affect_others",
        "test_open_requests_are_answered_before_the_end",
        "test_a_client_that_does_not_read_does_not_delay_the_end",
    ),
}
"""By the heading on that page."""
