//! The hot calls, as statements.

/// A call of one function of the store.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// The function's name without its digest.
    pub(crate) function: &'static str,
    /// Its arguments; `{ids}` and the like stand for columns about the jobs that run.
    pub(crate) arguments: &'static str,
}

const fn call(name: &'static str, function: &'static str, arguments: &'static str) -> Call {
    Call { name, function, arguments }
}

pub(crate) const CALLS: &[Call] = &[
    call(
        "enqueue",
        "jobs_enqueue",
        "1, {new}, {places}, {queues}, {kinds}, {bytes}, {zeros}, {nulls}, {nulls}, {nulls}, {nulls}, {nulls}, '{{call}}', {ones}",
    ),
    call(
        "enqueue, known",
        "jobs_enqueue",
        "1, {ids}, {places}, {queues}, {kinds}, {bytes}, {zeros}, {nulls}, {nulls}, {nulls}, {nulls}, {nulls}, '{{call}}', {ones}",
    ),
    call(
        "enqueue, to be sent",
        "jobs_enqueue",
        "1, {new}, {places}, {queues}, {kinds}, {bytes}, {zeros}, {holds}, {nulls}, {nulls}, {nulls}, {nulls}, '{{call}}', {ones}",
    ),
    call(
        "enqueue, unique",
        "jobs_enqueue_any",
        "1, {new}, {places}, {queues}, {kinds}, {bytes}, {zeros}, {nulls}, {nulls}, {nulls}, {nulls}, {nulls}, '{{call}}', \
         {ones}, {digests}, {lifetimes}, {nulls}, {nulls}, '{}'",
    ),
    call(
        "enqueue, duplicate",
        "jobs_enqueue_any",
        "1, {new}, {places}, {queues}, {kinds}, {bytes}, {zeros}, {nulls}, {nulls}, {nulls}, {nulls}, {nulls}, '{{call}}', \
         {ones}, {held}, {lifetimes}, {replace}, {nulls}, '{}'",
    ),
    call(
        "enqueue, keys",
        "jobs_enqueue_any",
        "1, {new}, {places}, '{keyed}', {kinds}, {bytes}, {zeros}, {nulls}, {nulls}, {nulls}, {nulls}, {nulls}, '{{call}}', \
         {ones}, '{}', '{}', '{}', '{}', {lines}",
    ),
    call(
        "enqueue, alike",
        "jobs_enqueue_alike",
        "1, {new}, 'q', 'k0', {bytes}, 0, NULL, NULL, NULL, '{call}', '{}', NULL",
    ),
    call(
        "enqueue, alike, unique",
        "jobs_enqueue_alike",
        "1, {new}, 'q', 'k0', {bytes}, 0, NULL, NULL, NULL, '{call}', {digests}::uuid[], 'end'",
    ),
    call(
        "enqueue, alike, duplicate",
        "jobs_enqueue_alike",
        "1, {new}, 'q', 'k0', {bytes}, 0, NULL, NULL, NULL, '{call}', {held}::uuid[], 'end'",
    ),
    call(
        "hand over",
        "jobs_hand_over_one",
        "1, gen_random_uuid(), 'idle', 'k0', '', 0, NULL, NULL, '{call}', '{lease}', 1, 'idle', 'k0', '{}', 10, 1000000, 100, 0, \
         1, 10",
    ),
    call("enqueue, one", "jobs_enqueue_one", "1, gen_random_uuid(), 'q', 'k0', '', 0, NULL, NULL, '{call}'"),
    call(
        "claim, one queue and kind",
        "jobs_claim_one",
        "'{lease}', 1, 'q', 'k0', '{}', 10, 1000000, 100, 0, 1, 10",
    ),
    call(
        "claim, one queue",
        "jobs_claim_one",
        "'{lease}', 1, 'q', NULL, '{k0,k1,k2}', 10, 1000000, 100, 0, 1, 10",
    ),
    call(
        "claim, one kind",
        "jobs_claim",
        "'{lease}', 1, '{late,q}', '{10,10}', '{k0}', 10, 1000000, 100, '{0,0}', '{}', '{}', '{}', 10",
    ),
    call(
        "claim, several kinds",
        "jobs_claim",
        "'{lease}', 1, '{late,q}', '{10,10}', '{k0,k1,k2}', 10, 1000000, 100, '{0,0}', '{}', '{}', '{}', 10",
    ),
    call(
        "claim from a floor",
        "jobs_claim",
        "'{lease}', 1, '{late,q}', '{10,10}', '{k0,k1,k2}', 10, 1000000, 100, '{0,0}', '{2}', '{0}', '{50}', 10",
    ),
    call(
        "claim, many kinds",
        "jobs_claim",
        "'{lease}', 1, '{late,q}', '{10,10}', '{k0,k1,k2,k3,k4,k5,k6,k7,k8,k9}', 10, 1000000, 100, '{0,0}', '{}', '{}', '{}', 10",
    ),
    call(
        "claim, rules",
        "jobs_claim",
        "'{lease}', 1, '{limited,q}', '{5,5}', '{k0,k1,k9}', 10, 1000000, 100, '{0,0}', '{}', '{}', '{}', 10",
    ),
    call(
        "claim, rules, anew",
        "jobs_claim",
        "'{lease}', 1, '{limited-anew}', '{5}', '{k0,k1,k9}', 10, 1000000, 100, '{0}', '{}', '{}', '{}', 10",
    ),
    call(
        "claim, rules, marks",
        "jobs_claim",
        "'{lease}', 1, '{limited-since}', '{5}', '{k0,k1,k9}', 10, 1000000, 100, '{0}', '{}', '{}', '{}', 10",
    ),
    call(
        "claim, keys",
        "jobs_claim",
        "'{lease}', 1, '{keyed}', '{9}', '{k0,k1,k9}', 9, 1000000, 100, '{0}', '{}', '{}', '{}', 9",
    ),
    call(
        "claim, turns",
        "jobs_claim",
        "'{lease}', 1, '{turned}', '{9}', '{k0,k1,k9}', 9, 1000000, 100, '{0}', '{}', '{}', '{}', 9",
    ),
    call(
        "claim, aged",
        "jobs_claim",
        "'{lease}', 0, '{aged}', '{5}', '{k0,k1,k9}', 5, 1000000, 100, '{0}', '{}', '{}', '{}', 9",
    ),
    call(
        "claim, aged, of a key",
        "jobs_claim",
        "'{lease}', 1, '{aged}', '{5}', '{k0,k1,k9}', 5, 1000000, 100, '{0}', '{}', '{}', '{}', 9",
    ),
    call("complete, one, kept", "jobs_complete_one", "1, {id}, 'q', 1, 1, 1, NULL, 1"),
    call("complete, one, dropped", "jobs_complete_one", "1, {id}, 'q', 1, 1, 1, NULL, 0"),
    call("complete, kept", "jobs_complete", "1, {ids}, {queues}, {ones}, {ones}, {ones}, 1"),
    call("complete, dropped", "jobs_complete", "1, {ids}, {queues}, {ones}, {ones}, {ones}, 0"),
    call(
        "settle",
        "jobs_settle",
        "1, 'fence', {ids}, {queues}, {ones}, {ones}, '{4,4,4,5,5,5,1,1,2,2}', '{0,0,0,0,0,0,9,9,0,NULL}', {ones}, {zeros}, \
         {zeros}, {zeros}, {nulls}, {endings}, {nulls}, {nulls}, '{0,0,255,0,0,255,0,0,0,0}'",
    ),
    call(
        "reap",
        "jobs_settle",
        "1, 'lost', {lost}, {queues}, {ones}, {ones}, '{2,2,2,2,2,2,2,2,2,2}', {zeros}, {ones}, {ones}, {zeros}, {zeros}, \
         {nulls}, {endings}, {nulls}, {nulls}, {zeros}",
    ),
    call(
        "late",
        "jobs_late",
        "1, {late}, {queues}, {ones}, {ones}, '{4,4,4,5,5,5,6,6,4,4}', {ones}, {zeros}, {zeros}, {zeros}, {nulls}, {endings}, \
         {nulls}, {nulls}, '{0,0,255,0,0,255,0,0,0,0}'",
    ),
    call("begin", "jobs_begin", "{ids}, {queues}, {ones}, {ones}"),
    call("progress", "jobs_progress", "1, {ids}, {queues}, {ones}, {ones}, {bytes}"),
    call("get", "jobs_get", "{ids}"),
    call("list", "inspect_list", "9223372036854775807, NULL, NULL, NULL, NULL, 10, 10, 1000000"),
    call("ended", "inspect_ended", "'q', 4, 0, -1, 10"),
    call("cancel", "jobs_amend", "'cancel', {ids}, NULL, NULL"),
    call("renew", "leases_renew", "'{lease}', 30000000, 1000"),
    call("lost", "leases_lost", "1000"),
    call("held", "leases_held", "'{lease}', 1, '{q}', 1000"),
    call("forget", "maintenance_forget", "1, 10, 10"),
    call("promote", "maintenance_promote", "100"),
    call("prune", "maintenance_prune", "'q', 4, NULL, 1, 10"),
    call("records, read", "records_read", "'q', {lines}"),
    call("records, list", "records_list", "'q', 'a', 'b', 11, 1000000"),
    call("records, totals", "records_totals", "'q', 10"),
    call("records, put", "records_change", "{queues}, {lines}, '{}', '{}', {ones}, {bytes}, '{}'"),
    call(
        "records, expected",
        "records_change",
        "{queues}, {lines}, '{0,1,2,2,2,2,2,0,0,0}', {ones}, '{1,1,2,2,2,2,2,NULL,NULL,2}', {bytes}, {ones}",
    ),
    call(
        "records, write",
        "records_write",
        "1, {new}, {places}, {queues}, {kinds}, {bytes}, {zeros}, {nulls}, {nulls}, {nulls}, {nulls}, {nulls}, '{{call}}', \
         {ones}, '{}', '{}', '{}', '{}', '{}', 'q', {lines}, '{}', '{}', {ones}, {bytes}, '{}'",
    ),
    call(
        "follow, complete",
        "records_follow",
        "'complete', 1, {ids}, {queues}, {ones}, {ones}, '{}', '{}', {ones}, '{}', '{}', '{}', '{}', '{}', '{}', '{}', {zeros}, \
         {ones}, {places}, {digests}, {places}, {new}, {places}, {queues}, {kinds}, {bytes}, {zeros}, {nulls}, {nulls}, {nulls}, \
         {nulls}, {nulls}, {ones}, {digests}, {lifetimes}, {nulls}, {nulls}, '{}', {queues}, {lines}, '{}', '{}', {ones}, {bytes}, \
         '{}'",
    ),
    call(
        "follow, settle",
        "records_follow",
        "'fence', 1, {ids}, {queues}, {ones}, {ones}, '{4,4,4,5,5,5,1,1,2,2}', '{0,0,0,0,0,0,9,9,0,NULL}', {ones}, {zeros}, \
         {zeros}, {zeros}, {nulls}, {endings}, {nulls}, {nulls}, '{0,0,255,0,0,255,0,0,0,0}', {ones}, {places}, '{}', '{}', \
         {new}, '{}', {queues}, {kinds}, {bytes}, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', \
         '{}', '{}', '{}', '{}', '{}', '{}', '{}'",
    ),
    call(
        "follow, hold",
        "records_follow",
        "'hold', 1, {ids}, {queues}, {ones}, {ones}, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', {ones}, \
         {places}, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', \
         '{}', {queues}, {lines}, '{}', '{}', {ones}, {bytes}, '{}'",
    ),
];
