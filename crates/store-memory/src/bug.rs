//! Bugs that can be planted, so that the conformance suite can show its teeth. Each is one `if` at the place
//! where a store would really get it wrong. Without the feature `planted-bugs` none can be chosen, and the
//! compiler removes them all.

/// One way to break the contract.
#[cfg_attr(not(feature = "planted-bugs"), allow(unreachable_pub, dead_code))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// An outcome is written whatever its fence.
    SettleUnfenced,
    /// Fences are compared by number only.
    IgnoreNonce,
    /// Progress is written whatever its fence.
    ProgressUnfenced,
    /// A job is taken back although its lease lives.
    ReapUnchecked,
    /// The attempt is counted when it ends, not when it begins.
    CountAttemptLate,
    /// A retry by hand starts the fence again.
    ResetFenceOnRetry,
    /// A claim takes everything.
    IgnoreClaimLimit,
    /// A claim takes as many bytes as there are.
    IgnoreClaimBytes,
    /// Jobs become ready without a ring.
    LoseWakeup,
    /// A cancel request is stored without a ring.
    LoseCancelRing,
    /// A lease that has run out can be renewed.
    RenewExpired,
    /// A lease that has run out can claim.
    ClaimUnderLostLease,
    /// Jobs become ready a second before their time.
    PromoteEarly,
    /// A refused enqueue leaves the jobs before the bad one.
    EnqueuePartial,
    /// A job that has expired is handed out.
    ClaimExpired,
    /// Retention looks at the age only.
    PruneIgnoresCount,
    /// A put-back does not heed the request to cancel.
    ForgetCancel,
    /// A job that runs is asked to stop where only waiting ones should end.
    WithdrawRunning,
    /// A job is sent back or removed although it is not as it was seen.
    IgnoreSeen,
    /// A page of ended jobs leaves out those that ended together with the last one of the page before.
    SkipEndsOfOneInstant,
    /// A second job under the same id replaces the first.
    AcceptDuplicate,
    /// A job that is held can be claimed at once.
    AcceptHeldAsReady,
    /// A job that is held cannot be sent.
    HoldForEver,
    /// Last in, first out within a priority.
    LastInFirstOut,
    /// Pages begin at a count of jobs, not at a position.
    PageByCount,
    /// Deleted jobs are still counted.
    DriftCounts,
    /// Error texts are stored whole.
    UncutErrors,
    /// An end that its queue keeps none of is stored all the same.
    StoreUnkept,
    /// A repeated call is taken for a new one.
    ForgetCall,
    /// A claim makes a nonce of its own.
    OwnNonce,
    /// What never began counts as begun when its lease is lost.
    StallUnbegun,
    /// A late outcome is written although the job was put back by something else than a reaper.
    SettleLateAlways,
    /// A duty is given to every holder.
    ShareDuty,
    /// A queue that holds jobs is removed if all of them have ended.
    RemoveWithEnds,
    /// The definition of a removed queue holds for the next one of its name.
    KeepDefinition,
    /// A queue is used although its definition uses a rule that is not known.
    IgnoreRules,
    /// A unique key is given up with the first attempt that ends.
    KeyGoneWithAttempt,
    /// A unique key is given up when its job is reaped.
    KeyGoneWithReap,
    /// A unique key is held although its job was cancelled.
    KeyKeptAtEnd,
    /// A key that is held for a time is given up at the end of its job.
    WindowGoneWithJob,
    /// A job that runs takes over what a later one says.
    ReplaceRunning,
    /// A refused call leaves the keys of its jobs taken.
    RefusedTakesKey,
    /// A retry by hand takes a key that another job holds.
    RetryTakesHeldKey,
    /// A debounced job is put off without end.
    DebounceForEver,
    /// Jobs of a paused queue or kind are handed out.
    IgnorePause,
    /// More jobs of a queue run than it permits.
    IgnoreConcurrency,
    /// More jobs of a queue start than its rate permits.
    IgnoreRate,
    /// A look at a queue shows a rate of which nothing is spent.
    ShowUnspent,
    /// Jobs of a queue with rules are handed out to wait for a slot.
    ClaimLimitedAhead,
    /// A definition is changed although it is not the one that was read.
    RedefineBlindly,
    /// More jobs of a key run than its queue permits.
    IgnoreKeyConcurrency,
    /// More jobs of a key start than its queue permits.
    IgnoreKeyRate,
    /// Jobs of a paused key are handed out.
    IgnoreKeyPause,
    /// A job that is reaped still counts as one of its key that runs.
    KeyHeldAtReap,
    /// The end of a job does not open the gate of its key.
    GateStaysClosed,
    /// The first key has every turn.
    NoTurns,
    /// A job with a key is accepted where no claim looks for it.
    AcceptAnyKey,
    /// A queue takes more jobs than it has room for.
    IgnoreCapacity,
    /// Jobs without a key go before all that have one.
    KeylessAlwaysFirst,
    /// The higher priority always goes first, although it is aged.
    StrictPriority,
    /// The higher priority always goes first among the jobs of a key.
    StrictKeys,
    /// Every claim looks at the same levels.
    SameLevels,
    /// A record is read although its time is over.
    ReadExpiredRecord,
    /// A record is changed whatever its writer expected.
    WriteUnexpected,
    /// Follow-ups are written whatever the fence of their attempt.
    FollowUnfenced,
    /// Follow-ups of an attempt that is cancelled instead of put back are written.
    FollowCancelled,
    /// The jobs that an attempt carries are lost.
    LoseFollowUps,
    /// The attempt ends although one of its follow-ups is refused.
    EndBeforeFollowUps,
    /// Follow-ups do not fit into a full queue.
    FollowUpsNeedRoom,
    /// A repeated call counts its jobs a second time.
    CountRepeat,
    /// What a reaper takes back is not counted.
    UncountedReap,
    /// An outcome with a stale fence is counted.
    CountStale,
    /// A minute that is folded into a row that is there is lost.
    LoseTallyAtFold,
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// Every bug.
    pub const ALL: [Self; 73] = [
        Self::SettleUnfenced,
        Self::IgnoreNonce,
        Self::ProgressUnfenced,
        Self::ReapUnchecked,
        Self::CountAttemptLate,
        Self::ResetFenceOnRetry,
        Self::IgnoreClaimLimit,
        Self::IgnoreClaimBytes,
        Self::LoseWakeup,
        Self::LoseCancelRing,
        Self::RenewExpired,
        Self::ClaimUnderLostLease,
        Self::PromoteEarly,
        Self::EnqueuePartial,
        Self::ClaimExpired,
        Self::PruneIgnoresCount,
        Self::ForgetCancel,
        Self::WithdrawRunning,
        Self::IgnoreSeen,
        Self::SkipEndsOfOneInstant,
        Self::AcceptDuplicate,
        Self::AcceptHeldAsReady,
        Self::HoldForEver,
        Self::LastInFirstOut,
        Self::PageByCount,
        Self::DriftCounts,
        Self::UncutErrors,
        Self::StoreUnkept,
        Self::ForgetCall,
        Self::OwnNonce,
        Self::StallUnbegun,
        Self::SettleLateAlways,
        Self::ShareDuty,
        Self::RemoveWithEnds,
        Self::KeepDefinition,
        Self::IgnoreRules,
        Self::KeyGoneWithAttempt,
        Self::KeyGoneWithReap,
        Self::KeyKeptAtEnd,
        Self::WindowGoneWithJob,
        Self::ReplaceRunning,
        Self::RefusedTakesKey,
        Self::RetryTakesHeldKey,
        Self::DebounceForEver,
        Self::IgnorePause,
        Self::IgnoreConcurrency,
        Self::IgnoreRate,
        Self::ShowUnspent,
        Self::ClaimLimitedAhead,
        Self::RedefineBlindly,
        Self::IgnoreKeyConcurrency,
        Self::IgnoreKeyRate,
        Self::IgnoreKeyPause,
        Self::KeyHeldAtReap,
        Self::GateStaysClosed,
        Self::NoTurns,
        Self::AcceptAnyKey,
        Self::IgnoreCapacity,
        Self::KeylessAlwaysFirst,
        Self::StrictPriority,
        Self::StrictKeys,
        Self::SameLevels,
        Self::ReadExpiredRecord,
        Self::WriteUnexpected,
        Self::FollowUnfenced,
        Self::FollowCancelled,
        Self::LoseFollowUps,
        Self::EndBeforeFollowUps,
        Self::FollowUpsNeedRoom,
        Self::CountRepeat,
        Self::UncountedReap,
        Self::CountStale,
        Self::LoseTallyAtFold,
    ];
}
