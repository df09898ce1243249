//! What a user reads when no server is there: the text of the error says why, without asking for its source.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

/// A port of this machine that nothing listens on: it was free a moment ago.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn complaint(url: String) -> String {
    windlass::open(&url).await.expect_err("nothing listens there").to_string()
}

#[tokio::test]
async fn cannot_connect_says_why() {
    let port = closed_port();
    for url in [format!("postgres://app@127.0.0.1:{port}/app"), format!("redis://127.0.0.1:{port}")] {
        let text = complaint(url).await;
        assert!(text.contains(&port.to_string()) && text.to_lowercase().contains("refused"), "{text}");
    }
}
