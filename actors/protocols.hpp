/// Who may ask whom for what: the protocol of every role, in one place.
///
/// A handle is typed by one of these, so that an actor of a user's own stands in for any of ours by
/// answering the same protocol.
#pragma once

#include "messages/protocol.hpp"

namespace weir {

/// The dataloader: records ahead of the cursor, and the cursor. An owner.
using dataloader_protocol =
    joined<protocol<call<PeekBatch, BatchPeeked>, call<ReserveBatch, BatchReserved>,
                    call<FetchPrompts, PromptsFetched>>,
           owner_protocol>;

/// The sampler: ledger, admission gate, shortfalls. An owner.
using sampler_protocol =
    joined<protocol<call<ReserveGroups, GroupsReserved>, call<AwaitAdmission, AdmissionOpened>,
                    call<AdmitBatch, BatchAdmitted>, call<ReleaseGroup, GroupReleased>,
                    call<DropGroups, GroupsDropped>, call<RecordFailure, FailureRecorded>,
                    call<DivertGroups, GroupsDiverted>, call<DrainReserve, ReserveDrained>,
                    call<ReplaceGroup, GroupReplaced>, call<RepayGroup, GroupRepaid>,
                    call<ListUnfinished, UnfinishedListed>, call<ReadTarget, TargetRead>,
                    call<SettleStep, StepSettled>, note<VersionLive>>,
           owner_protocol>;

/// The rollout actor answers the barrier only: it is an origin, and asks everybody else.
using rollout_protocol = origin_protocol;

/// A generator: sequences in, a stream of tokens out. Never part of a cut.
using generator_protocol =
    protocol<call<GenerateGroup, GenerationAccepted>, call<UpdateWeights, WeightsLive>,
             call<AwaitWeightsLost, WeightsLost>, call<Probe, ProbeAnswered>, note<AbortGroup>>;

/// An environment: completions in, rewards out. Never part of a cut.
using environment_protocol =
    protocol<call<ScoreCompletion, CompletionScored>, call<Probe, ProbeAnswered>>;

/// Replay: slots, staged rows, batches. An owner, and its evictor is an origin.
using replay_protocol = joined<
    protocol<call<StartGroup, GroupStarted>, call<StageGroup, GroupStaged>,
             call<CommitGroup, GroupCommitted>, call<PromoteGroup, GroupPromoted>,
             call<AwaitBatch, BatchReady>, call<ClaimBatch, BatchClaimed>,
             call<ConsumeBatch, BatchConsumed>, call<AwaitStale, StaleProposed>, note<GroupBegun>,
             note<StopGroup>, note<DiscardGroup>, note<SupplyEnded>, note<VersionMoved>>,
    owner_protocol, origin_protocol>;

/// The trainer answers the barrier only: an origin and an owner.
using trainer_protocol = joined<owner_protocol, origin_protocol>;

/// Validation runs on held-out prompts.
using validation_protocol = protocol<call<Validate, Validated>>;

/// The checkpoint actor.
using checkpoint_protocol =
    protocol<call<RequestCheckpoint, CheckpointPublished>, note<PeriodicCheckpoint>>;

/// Whoever watches the run: a progress line, a metrics file, a test.
using observer_protocol =
    protocol<note<StepFinished>, note<WarmupAdvanced>, call<RunFinished, RunFinishNoted>,
             note<CheckpointPublished>, note<Validated>>;

} // namespace weir
