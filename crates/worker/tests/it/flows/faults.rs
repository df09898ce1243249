//! Flows while movers die.

use windlass_worker::FlowKeeper;

use super::{part, scene, statuses, work};

#[tokio::test]
async fn an_empty_store_costs_the_keeper_nothing() {
    let client = scene();
    let summary = FlowKeeper::new(&client).run_once().await.unwrap();
    assert_eq!((summary.looked, summary.taken, summary.unnoted), (0, 0, 0));
    let mut flow = client.flow("one");
    flow.add(part("one"));
    let flow = flow.submit().await.unwrap();
    work(&client).await;
    assert_eq!(statuses(&flow.view().await.unwrap()), ["completed"]);
}
