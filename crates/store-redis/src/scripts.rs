//! All scripts, each with the parts that it needs, in this order: a part uses those before it.

use crate::script::Script;

/// The text of a file in `scripts/`.
macro_rules! file {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $name, ".lua"))
    };
}

macro_rules! scripts {
    ($($script:ident = [$($part:literal)*] $name:literal;)*) => {
        $(pub(crate) static $script: Script = Script::new($name, &[$(file!($part),)* file!($name)]);)*

        /// All of them.
        #[cfg(test)]
        pub(crate) static ALL: &[&Script] = &[$(&$script),*];
    };
}

scripts! {
    // Accepts jobs; also what delivers a transfer.
    ENQUEUE = ["shared/keys" "shared/clock" "shared/calls" "shared/records" "shared/lines" "shared/batch" "shared/kinds"
        "shared/blocks" "shared/tell" "shared/packed" "shared/uniques" "shared/conflicts" "shared/gates" "shared/accept" "shared/undo"
        "shared/enqueue"] "jobs/enqueue";
    CHECK = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/packed" "shared/uniques"] "jobs/check";
    CLAIM = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/promote" "claim/sources" "claim/find" "claim/aged" "claim/merge" "claim/parked"
        "claim/room" "claim/starting" "claim/take" "claim/rates" "claim/rules" "claim/permits" "claim/turns" "claim/behind"
        "claim/counting" "claim/quick" "claim/keyed"] "jobs/claim";
    BEGIN = ["shared/keys" "shared/records"] "jobs/begin";
    PROGRESS = ["shared/keys" "shared/records" "shared/lines" "shared/batch"] "jobs/progress";
    SETTLE = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/outcomes" "shared/ends" "shared/first_attempts"] "jobs/settle";
    SETTLE_LATE = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/outcomes" "shared/late_ends"] "jobs/settle_late";
    GET = ["shared/keys" "shared/records"] "jobs/get";
    STATES = ["shared/keys" "shared/records"] "jobs/states";

    CANCEL = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/amend"] "jobs/cancel";
    WITHDRAW = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/amend"] "jobs/withdraw";
    RETRY = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/amend"] "jobs/retry";
    DELETE = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/amend"] "jobs/delete";

    PROMOTE = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves" "shared/promote"] "maintenance/promote";
    PRUNE = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/uniques" "shared/moves"] "maintenance/prune";
    SWEEP_GATES = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/gates" "claim/rates"
        "claim/rules" "claim/permits"] "maintenance/gates";
    TAKE_DUTY = ["shared/clock"] "maintenance/take_duty";
    LEAVE_DUTY = [] "maintenance/leave_duty";

    NOTE_QUEUES = ["shared/clock"] "agenda/note";
    READ_AGENDA = ["shared/clock"] "agenda/read";
    WRITE_VISITED = ["shared/clock"] "agenda/visited";
    FILL_AGENDA = ["shared/clock"] "agenda/fill";

    OPEN_LEASE = ["shared/keys" "shared/clock"] "leases/open";
    RENEW_LEASE = ["shared/keys" "shared/clock" "shared/records"] "leases/renew";
    CLOSE_LEASE = ["shared/keys" "shared/clock"] "leases/close";
    HELD = ["shared/keys" "shared/records"] "leases/held";
    LOST = ["shared/keys" "shared/clock" "shared/records"] "leases/lost";
    SWEEP_LEASES = ["shared/keys" "shared/clock"] "leases/sweep";
    COUNT_RUNNING = ["shared/keys"] "leases/running";

    OPEN_RECORD = ["shared/clock" "shared/lease_records"] "leases/namespace/open";
    RENEW_RECORD = ["shared/clock" "shared/lease_records"] "leases/namespace/renew";
    CLOSE_RECORD = ["shared/clock" "shared/lease_records"] "leases/namespace/close";
    LIST_RECORDS = ["shared/clock"] "leases/namespace/list";
    EXPIRED_RECORDS = ["shared/clock"] "leases/namespace/expired";
    FORGET_RECORDS = ["shared/clock" "shared/lease_records"] "leases/namespace/forget";

    LIST_JOBS = ["shared/keys" "shared/records"] "inspect/list";
    READ_JOBS = ["shared/keys" "shared/records"] "inspect/read";
    ENDED_JOBS = ["shared/keys"] "inspect/ended";

    READ_REMEMBERED = ["shared/keys" "shared/clock" "shared/remembered"] "records/read";
    LIST_REMEMBERED = ["shared/keys" "shared/clock" "shared/remembered"] "records/list";
    COUNT_REMEMBERED = ["shared/keys" "shared/clock" "shared/remembered"] "records/totals";
    WRITE_REMEMBERED = ["shared/keys" "shared/clock" "shared/calls" "shared/records" "shared/lines" "shared/batch" "shared/kinds"
        "shared/blocks" "shared/tell" "shared/packed" "shared/uniques" "shared/conflicts" "shared/gates" "shared/accept" "shared/undo"
        "shared/enqueue" "shared/remembered"] "records/write";
    FOLLOW = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/packed" "shared/uniques" "shared/conflicts" "shared/accept" "shared/moves"
        "shared/outcomes" "shared/ends" "shared/first_attempts" "shared/undo" "shared/remembered" "shared/posts" "shared/follow"
        "shared/follow_attempts"] "records/follow";
    FOLLOW_LATE = ["shared/keys" "shared/clock" "shared/records" "shared/lines" "shared/batch" "shared/kinds" "shared/blocks"
        "shared/tell" "shared/gates" "shared/places" "shared/packed" "shared/uniques" "shared/conflicts" "shared/accept" "shared/moves"
        "shared/outcomes" "shared/late_ends" "shared/first_attempts" "shared/undo" "shared/remembered" "shared/posts" "shared/follow"
        "shared/follow_attempts"] "records/follow_late";

    ENTER = [] "queues/enter";
    LEAVE = [] "queues/leave";
    DEFINE = ["shared/keys" "shared/clock"] "queues/define";
    REMOVE = ["shared/keys" "shared/clock" "shared/blocks"] "queues/remove";
    WHERE = [] "queues/where";
    NOW = ["shared/clock"] "queues/now";

    POST_TRANSFERS = ["shared/keys" "shared/clock" "shared/calls" "shared/undo" "shared/posts"] "transfers/post";
    KNOWS_CALL = ["shared/keys"] "transfers/known";
    FORGET_CALL = ["shared/keys"] "transfers/forget";
    READ_TRANSFERS = ["shared/keys"] "transfers/read";
    REMOVE_TRANSFERS = ["shared/keys"] "transfers/remove";
}
