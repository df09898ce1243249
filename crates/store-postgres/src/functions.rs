//! The store's statements. Each is a function in the schema, so that its plans are made once per connection and
//! are the same whatever the statistics say and whatever stands between us and the server; one calls two of them.
//!
//! The name of a function ends with a digest of its text: a program always calls the text that it came with, and
//! programs of different versions work side by side on one schema. Functions are therefore not changed, only
//! added, and dropped when no program uses them; see [`crate::migrate`]. A text is put together from fragments; see
//! [`assemble`].

mod assemble;

use tokio_postgres::types::Type;

use assemble::assemble;

/// What keeps the plan of a statement steady: no statistics, however old or young, make it scan a table, sort what
/// an index has in order, or join by hashing. The plan is made once, for any parameters.
///
/// Tables are joined by `key = ANY (ARRAY[other.key])`: the same as `key = other.key`, except that the only plan for
/// it is to look each key up. Statistics that were taken while a table was almost empty, as they are while nothing
/// runs, would otherwise make the server walk the whole of its index instead.
const PLANNED: &str = "SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_sort = off SET plan_cache_mode = force_generic_plan SET jit = off";

const STEADY: &str = "SET search_path = {schema}, pg_temp {planned}";

/// The same for functions that find each row by its key and have nothing to sort or to choose: each setting takes its
/// time at each call.
const FOUND: &str = "SET search_path = {schema}, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
    SET plan_cache_mode = force_generic_plan";

/// The text of a migration, whose functions may be planned in the same way.
pub(crate) fn planned(migration: &str) -> String {
    migration.replace("{planned}", PLANNED)
}

/// One function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Part and verb.
    pub(crate) name: &'static str,
    text: &'static str,
    /// The types of its parameters.
    pub(crate) parameters: &'static [Type],
}

macro_rules! function {
    ($constant:ident = $name:literal, $path:literal, [$($parameter:ident),*]) => {
        pub(crate) const $constant: Function = Function {
            name: $name,
            text: include_str!(concat!("../queries/", $path, ".sql")),
            parameters: &[$(Type::$parameter),*],
        };
    };
}

macro_rules! functions {
    ($($constant:ident = $name:literal, $path:literal, $parameters:tt;)*) => {
        $(function! { $constant = $name, $path, $parameters })*

        /// Every function there is.
        pub(crate) const ALL: &[Function] = &[$($constant),*];
    };
}

functions! {
    ENQUEUE = "jobs_enqueue", "jobs/enqueue", [
        INT8, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY, INT8_ARRAY
    ];
    ENQUEUE_ANY = "jobs_enqueue_any", "jobs/enqueue_any", [
        INT8, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY
    ];
    ENQUEUE_ALIKE = "jobs_enqueue_alike", "jobs/enqueue_alike", [
        INT8, UUID_ARRAY, TEXT, TEXT, BYTEA_ARRAY, INT8, INT8, TEXT, TEXT, UUID, UUID_ARRAY, TEXT
    ];
    ENQUEUE_ONE = "jobs_enqueue_one", "jobs/enqueue_one", [INT8, UUID, TEXT, TEXT, BYTEA, INT8, TEXT, TEXT, UUID];
    CLAIM = "jobs_claim", "jobs/claim", [
        UUID, INT8, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8, INT8, INT8, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8
    ];
    CLAIM_ONE = "jobs_claim_one", "jobs/claim/one", [
        UUID, INT8, TEXT, TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8, INT8, INT8
    ];
    HAND_OVER_ONE = "jobs_hand_over_one", "jobs/hand_over_one", [
        INT8, UUID, TEXT, TEXT, BYTEA, INT8, TEXT, TEXT, UUID,
        UUID, INT8, TEXT, TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8, INT8, INT8
    ];
    CLAIM_LOOK = "jobs_look", "jobs/claim/look", [
        INT8, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, BOOL, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY
    ];
    CLAIM_DUE = "jobs_due", "jobs/claim/due", [INT8, TEXT, INT8, INT8, INT8];
    CLAIM_CHOOSE = "jobs_choose", "jobs/claim/choose", [
        INT8, TEXT, TEXT_ARRAY, INT8, INT8, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY
    ];
    CLAIM_FIT = "jobs_fit", "jobs/claim/fit", [INT8_ARRAY, INT8];
    CLAIM_RULED = "jobs_ruled", "jobs/claim/ruled", [TEXT_ARRAY];
    CLAIM_LEFT = "jobs_left", "jobs/claim/left", [INT8, TEXT, TEXT_ARRAY, INT8, INT8, BOOL];
    CLAIM_HEED = "jobs_heed", "jobs/claim/heed", [
        INT8, TEXT, TEXT_ARRAY, INT8, INT8, INT8, BOOL, BOOL, INT8, INT8, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY
    ];
    CLAIM_LEVELS = "jobs_levels", "jobs/claim/levels", [TEXT, TEXT_ARRAY, INT8];
    CLAIM_AGED = "jobs_aged", "jobs/claim/aged", [
        INT8, TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY
    ];
    CLAIM_BEHIND = "jobs_behind", "jobs/claim/behind", [
        INT8, TEXT, TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8_ARRAY
    ];
    CLAIM_KEYED = "jobs_keyed", "jobs/claim/keyed", [INT8, TEXT, TEXT_ARRAY, INT8, INT8, BOOL, INT8, INT8];
    CLAIM_FAR = "jobs_far", "jobs/claim/far", [TEXT, INT8, INT8];
    CLAIM_GATES = "jobs_gates", "jobs/claim/gates", [INT8, TEXT, INT8];
    CLAIM_ASK = "jobs_ask", "jobs/claim/ask", [TEXT, TEXT_ARRAY, INT8, INT8, TEXT_ARRAY, JSONB];
    CLAIM_ROUND = "jobs_round", "jobs/claim/round", [
        INT8, TEXT, TEXT_ARRAY, INT8, TEXT_ARRAY, INT8, INT8, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8, BOOL, INT8, INT8, INT8, TEXT, INT8, INT8,
        JSONB, JSONB, INT8, INT8
    ];
    CLAIM_ROOM = "jobs_room", "jobs/claim/room", [INT8, TEXT, TEXT_ARRAY, INT8_ARRAY, INT8, INT8, INT8, INT8, JSONB];
    CLAIM_FRONT = "jobs_front", "jobs/claim/front", [
        INT8, TEXT, TEXT_ARRAY, INT8, TEXT_ARRAY, INT8_ARRAY, BOOL, INT8_ARRAY, INT8, INT8
    ];
    CLAIM_PASS = "jobs_pass", "jobs/claim/pass", [
        INT8, TEXT, INT8, INT8_ARRAY, TID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BOOL_ARRAY, INT8_ARRAY, INT8_ARRAY,
        INT8_ARRAY, TID_ARRAY, TEXT_ARRAY, BOOL, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, BOOL, INT8_ARRAY, INT8, INT8, TEXT, INT8, INT8
    ];
    CLAIM_RUNS = "jobs_runs", "jobs/claim/runs", [
        TEXT, TID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8, TEXT_ARRAY, INT8_ARRAY, BOOL
    ];
    CLAIM_SPEND_KEYS = "jobs_spend_keys", "jobs/claim/spend_keys", [INT8, TEXT, TEXT_ARRAY, INT8_ARRAY, INT8, TEXT, INT8];
    CLAIM_MARK = "jobs_mark", "jobs/claim/mark", [INT8, TEXT, INT8];
    CLAIM_SPEND = "jobs_spend", "jobs/claim/spend", [INT8, TEXT, INT8];
    COMPLETE = "jobs_complete", "jobs/complete", [
        INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8
    ];
    COMPLETE_ONE = "jobs_complete_one", "jobs/complete_one", [INT8, UUID, TEXT, INT8, INT8, INT8, BYTEA, INT8];
    SETTLE = "jobs_settle", "jobs/settle", [
        INT8, TEXT, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY
    ];
    LATE = "jobs_late", "jobs/late", [
        INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY
    ];
    BEGIN = "jobs_begin", "jobs/begin", [UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY];
    HOLDS = "jobs_holds", "jobs/holds", [TEXT, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY];
    PROGRESS = "jobs_progress", "jobs/progress", [
        INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY
    ];
    GET = "jobs_get", "jobs/get", [UUID_ARRAY];
    STATES = "jobs_states", "jobs/states", [UUID_ARRAY];
    AMEND = "jobs_amend", "jobs/amend", [TEXT, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY];
    OPEN = "leases_open", "leases/open", [UUID, INT8, TEXT, TEXT];
    RENEW = "leases_renew", "leases/renew", [UUID, INT8, INT8];
    CLOSE = "leases_close", "leases/close", [UUID];
    LOST = "leases_lost", "leases/lost", [INT8];
    HELD = "leases_held", "leases/held", [UUID, INT8, TEXT_ARRAY, INT8];
    SWEEP = "leases_sweep", "leases/sweep", [INT8];
    LEASES = "leases_list", "leases/list", [INT8];
    DEFINE = "queues_define", "queues/define", [TEXT, TEXT, INT8, INT8, BOOL, INT8, INT8];
    DEFINITIONS = "queues_definitions", "queues/definitions", [TEXT_ARRAY];
    QUEUE_RULES = "queues_rules", "queues/rules", [TEXT, INT8];
    QUEUE_KEY_RULES = "queues_key_rules", "queues/key_rules", [TEXT];
    QUEUE_KEY_PERMITS = "queues_key_permits", "queues/key_permits", [INT8, TEXT, TEXT, INT8, INT8, INT8];
    QUEUE_PERMITS = "queues_permits", "queues/permits", [INT8, TEXT, INT8, INT8, INT8];
    NOW = "queues_now", "queues/now", [];
    QUEUES = "queues_list", "queues/list", [TEXT, INT8];
    REMOVE = "queues_remove", "queues/remove", [TEXT];
    FOLD = "queues_fold", "queues/fold", [INT8];
    FOLD_TALLIES = "queues_fold_tallies", "queues/fold_tallies", [INT8, INT8, INT8_ARRAY];
    TALLIES = "queues_tallies", "queues/tallies", [TEXT_ARRAY, INT8, INT8, INT8];
    LIST = "inspect_list", "inspect/list", [INT8, TEXT, TEXT, INT8, TEXT, INT8, INT8, INT8];
    ENDED = "inspect_ended", "inspect/ended", [TEXT, INT8, INT8, INT8, INT8];
    PROMOTE = "maintenance_promote", "maintenance/promote", [INT8];
    PRUNE = "maintenance_prune", "maintenance/prune", [TEXT, INT8, INT8, INT8, INT8];
    FORGET = "maintenance_forget", "maintenance/forget", [INT8, INT8, INT8];
    MEND_RUNS = "maintenance_mend_runs", "maintenance/mend_runs", [TEXT, TEXT_ARRAY];
    MEND = "maintenance_mend", "maintenance/mend", [INT8, TEXT, INT8, TEXT, INT8];
    TAKE_DUTY = "maintenance_take_duty", "maintenance/take_duty", [TEXT, UUID, INT8];
    LEAVE_DUTY = "maintenance_leave_duty", "maintenance/leave_duty", [TEXT, UUID];
    RECORDS_READ = "records_read", "records/read", [TEXT, TEXT_ARRAY];
    RECORDS_LIST = "records_list", "records/list", [TEXT, TEXT, TEXT, INT8, INT8];
    RECORDS_TOTALS = "records_totals", "records/totals", [TEXT, INT8];
    RECORDS_CHANGE = "records_change", "records/change", [
        TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY
    ];
    RECORDS_WRITE = "records_write", "records/write", [
        INT8, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY,
        TEXT, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY
    ];
    FOLLOW = "records_follow", "records/follow", [
        TEXT, INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY,
        INT8_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8_ARRAY,
        UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY
    ];
    ABORT = "within_abort", "within/abort", [];
}

// Calls enqueue and claim in one statement. It is not a function of the schema: one more around the two would take back a part
// of what it saves.
function! {
    HAND_OVER = "jobs_hand_over", "jobs/hand_over", [
        INT8, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY, INT8_ARRAY,
        UUID, INT8, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8, INT8, INT8, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8
    ]
}

// Calls no function of the schema.
function! { NOTIFY = "wakeup_notify", "wakeup/notify", [TEXT_ARRAY, TEXT_ARRAY] }

/// Statements that are spelled out, with their names.
pub(crate) fn spelled_out(schema: &str) -> [(&'static str, String); 2] {
    [HAND_OVER, NOTIFY].map(|function| {
        let text = assemble(function.text).replace("{schema}", schema);
        (function.name, text)
    })
}

/// Those that jobs pass through, and their notes.
const FREQUENT: [Function; 13] = [
    ENQUEUE,
    ENQUEUE_ANY,
    ENQUEUE_ALIKE,
    ENQUEUE_ONE,
    CLAIM,
    CLAIM_ONE,
    HAND_OVER,
    HAND_OVER_ONE,
    COMPLETE,
    COMPLETE_ONE,
    SETTLE,
    FOLLOW,
    NOTIFY,
];

impl Function {
    /// Whether each job, or the note about it, passes through it.
    pub(crate) fn is_frequent(&self) -> bool {
        FREQUENT.iter().any(|frequent| frequent.name == self.name)
    }

    /// The name in the schema.
    pub(crate) fn full_name(&self) -> String {
        self.named(&assemble(self.text))
    }

    fn named(&self, assembled: &str) -> String {
        format!("{}_{:012x}", self.name, digest(&[assembled, STEADY, FOUND, PLANNED]) >> 16)
    }

    /// The statement that makes the function.
    pub(crate) fn definition(&self, schema: &str) -> String {
        let text = assemble(self.text);
        text.replace("{function}", &format!("{schema}.{}", self.named(&text)))
            .replace("{steady}", STEADY)
            .replace("{found}", FOUND)
            .replace("{planned}", PLANNED)
            .replace("{schema}", schema)
    }

    /// The statement that calls the function.
    pub(crate) fn call(&self, schema: &str) -> String {
        let parameters: Vec<_> = (1..=self.parameters.len()).map(|number| format!("${number}")).collect();
        format!("SELECT * FROM {schema}.{}({})", self.full_name(), parameters.join(", "))
    }
}

/// FNV-1a: short, and the same in every program.
fn digest(parts: &[&str]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_an_identifier_and_follow_the_text() {
        for function in ALL {
            assert!(function.full_name().len() < 64, "{}", function.name);
            assert!(
                function.definition("s").contains(&format!("CREATE FUNCTION s.{}(", function.full_name()))
            );
            assert!(!function.definition("s").contains("{schema}"), "{}", function.name);
        }
        let other = Function { text: "other", ..CLAIM };
        assert_ne!(other.full_name(), CLAIM.full_name());
    }

    /// A reader takes in no more at once, and a function that needs more has parts that can have a name.
    #[test]
    fn no_function_has_more_than_150_lines() {
        for function in ALL {
            let definition = function.definition("s");
            let start = definition.find("CREATE FUNCTION").expect("it makes a function");
            for (what, text) in [("file", function.text), ("function", &definition[start..])] {
                let lines = text.lines().count();
                assert!(lines <= 150, "the {what} of {} has {lines} lines", function.name);
            }
        }
    }

    /// So that a name which leads to another of them, on a session that is not ours alone, is noticed by the server.
    #[test]
    fn no_two_frequent_functions_have_as_many_parameters() {
        let mut counts: Vec<_> = FREQUENT.iter().map(|function| function.parameters.len()).collect();
        counts.sort_unstable();
        assert!(counts.len() > 3 && counts.windows(2).all(|pair| pair[0] != pair[1]), "{counts:?}");
    }

    #[test]
    fn a_hand_over_is_an_enqueue_and_a_claim() {
        let [(name, statement), _] = spelled_out("s");
        assert_eq!(name, HAND_OVER.name);
        assert!(statement.contains(&format!("${}", HAND_OVER.parameters.len())), "{statement}");
        let parts = [
            (HAND_OVER, [ENQUEUE, CLAIM], statement),
            (HAND_OVER_ONE, [ENQUEUE_ONE, CLAIM_ONE], HAND_OVER_ONE.definition("s")),
        ];
        for (function, [enqueue, claim], text) in parts {
            assert_eq!(function.parameters, [enqueue.parameters, claim.parameters].concat());
            for part in [enqueue, claim] {
                assert!(text.contains(&format!("{}(", part.full_name())), "{text}");
            }
        }
    }

    #[test]
    fn a_call_names_every_parameter() {
        assert!(GET.call("s").starts_with("SELECT * FROM s.jobs_get_"));
        assert!(OPEN.call("s").ends_with("($1, $2, $3, $4)"));
    }
}
