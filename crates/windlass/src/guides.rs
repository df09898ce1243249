//! Every program in the README and in the guides, compiled and run as a documentation test.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/guides/jobs.md")]
struct Jobs;

#[doc = include_str!("../../../docs/guides/retries.md")]
struct Retries;

#[doc = include_str!("../../../docs/guides/workers.md")]
struct Workers;

#[doc = include_str!("../../../docs/guides/doing-things-once.md")]
struct DoingThingsOnce;

#[doc = include_str!("../../../docs/guides/schedules.md")]
struct Schedules;

#[doc = include_str!("../../../docs/guides/flows.md")]
struct Flows;

#[doc = include_str!("../../../docs/guides/protecting-others.md")]
struct ProtectingOthers;

#[doc = include_str!("../../../docs/guides/layers.md")]
struct Layers;

#[doc = include_str!("../../../docs/guides/transactions.md")]
struct Transactions;

#[doc = include_str!("../../../docs/guides/testing.md")]
struct Testing;

#[doc = include_str!("../../../docs/guides/choosing-a-store.md")]
struct ChoosingAStore;

#[doc = include_str!("../../../docs/guides/production.md")]
struct Production;

#[doc = include_str!("../../../docs/guides/troubleshooting.md")]
struct Troubleshooting;

#[doc = include_str!("../../../docs/guides/upgrading.md")]
struct Upgrading;

#[cfg(feature = "metrics")]
#[doc = include_str!("../../../docs/operations/metrics.md")]
struct MetricsPage;

#[cfg(feature = "opentelemetry")]
#[doc = include_str!("../../../docs/guides/traces.md")]
struct Traces;

#[cfg(feature = "local")]
#[doc = include_str!("../../../docs/guides/in-process.md")]
struct InProcess;

#[doc = include_str!("../../../docs/guides/http-api.md")]
struct HttpApi;
