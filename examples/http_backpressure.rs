//! How does an HTTP handler say "not now" instead of falling over? Written on a bare socket, to show only that.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass::local::{Item, Queue, Refused};

/// The work behind the handler: one report at a time, and at most two that wait.
type Reports = Queue<Item<u32, String>>;

async fn render(number: u32) -> String {
    tokio::time::sleep(Duration::from_millis(100)).await;
    format!("report {number}")
}

async fn answer(mut stream: TcpStream, number: u32, reports: Reports) -> std::io::Result<()> {
    let mut request = [0; 1_024];
    let _length = stream.read(&mut request).await?;
    let (status, body) = match reports.try_push(number) {
        // If the client goes away, this future is dropped, and with it the handle: the report leaves the queue.
        Ok(report) => match report.await {
            Ok(report) => ("200 OK", report),
            Err(error) => ("500 Internal Server Error", error.to_string()),
        },
        Err(Refused::Full(_)) => ("503 Service Unavailable\r\nRetry-After: 1", "too many reports".into()),
        Err(Refused::Closed(_)) => ("503 Service Unavailable", "shutting down".into()),
    };
    let answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await
}

async fn ask(address: std::net::SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /report HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reports: Reports = Queue::builder().concurrency(1).capacity(2).handle(render)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        for number in 1.. {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(answer(stream, number, reports.clone()));
        }
        Ok::<(), std::io::Error>(())
    });

    let clients: Vec<_> = (0..16).map(|_| tokio::spawn(ask(address))).collect();
    let mut answers = Vec::new();
    for client in clients {
        answers.push(client.await??);
    }
    answers.sort();
    for status in ["HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"] {
        println!("{status}: {} of 16", answers.iter().filter(|answer| *answer == status).count());
    }
    server.abort();
    Ok(())
}
