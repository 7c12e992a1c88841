//! One page over HTTP, to clients that nobody vouches for.
//!
//! Everything that a client can ask of the server has a limit: connections, bytes of a request,
//! time, how often the page is made. Bodies are never read, and one thread serves all connections
//! without waiting for any of them. So a client can slow down other clients, and nothing else.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::policy::until;

/// Connections at a time. With one more, the oldest is closed: a scraper is answered at once, and
/// what stays longer is slow or no scraper.
const CONNECTIONS_MAX: usize = 32;
/// The longest request, with all its headers.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// How long a connection may last.
const TIME_MAX: Duration = Duration::from_secs(2);
/// How old a page may become: whoever asks more often gets the same one again.
const PAGE_AGE_MAX: Duration = Duration::from_millis(100);
/// How long nobody is let in after that has failed, for want of descriptors, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Page {
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) make: Box<dyn Fn() -> Option<String> + Send>,
}

/// A server of one page; dropping it ends it.
pub(crate) struct HttpServer {
    address: SocketAddr,
    /// A byte here ends the server's thread. Nobody waits for it.
    end: PipeWriter,
}

impl HttpServer {
    pub(crate) fn start(address: SocketAddr, page: Page) -> std::io::Result<HttpServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (ends, end) = std::io::pipe()?;
        let served = Served { page, made: None };
        let server = Server { listener, ends, served, connections: Vec::new(), accepts_from: None };
        std::thread::Builder::new().name("farside-metrics".into()).spawn(move || server.run())?;
        Ok(HttpServer { address, end })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // The thread that reads it may have panicked.
        let _ = self.end.write(&[0]);
    }
}

struct Server {
    listener: TcpListener,
    ends: PipeReader,
    served: Served,
    /// In the order in which they came.
    connections: Vec<Connection>,
    /// When the next connection may be accepted, after that has failed.
    accepts_from: Option<Instant>,
}

impl Server {
    fn run(mut self) {
        loop {
            let now = Instant::now();
            self.accepts_from = self.accepts_from.filter(|&from| from > now);
            let accepting = match self.accepts_from {
                None => PollFlags::IN,
                Some(_) => PollFlags::empty(),
            };
            let mut polled = vec![
                PollFd::new(&self.ends, PollFlags::IN),
                PollFd::new(&self.listener, accepting),
            ];
            polled.extend(self.connections.iter().map(Connection::polled));
            let due = self.connections.first().map(|oldest| oldest.until);
            let due = due.into_iter().chain(self.accepts_from).min();
            match rustix::event::poll(&mut polled, until(due).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            if !polled[0].revents().is_empty() {
                return;
            }
            let is_asked = !polled[1].revents().is_empty();
            let ready: Vec<bool> =
                polled[2..].iter().map(|each| !each.revents().is_empty()).collect();
            let (mut ready, now) = (ready.into_iter(), Instant::now());
            self.connections.retain_mut(|connection| {
                let is_ready = ready.next() == Some(true);
                now < connection.until && (!is_ready || connection.progress(&mut self.served))
            });
            if is_asked {
                self.accept();
            }
        }
    }

    /// Accepts connections, but not without end: those that are there go on in between.
    fn accept(&mut self) {
        for _ in 0..CONNECTIONS_MAX {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The client has gone away meanwhile.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    self.accepts_from = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let mut connection = Connection {
                socket,
                until: Instant::now() + TIME_MAX,
                request: Vec::new(),
                answer: None,
            };
            // Most have asked already, and need no place.
            if connection.progress(&mut self.served) {
                if self.connections.len() == CONNECTIONS_MAX {
                    self.connections.remove(0);
                }
                self.connections.push(connection);
            }
        }
    }
}

struct Served {
    page: Page,
    made: Option<(Instant, Arc<[u8]>)>,
}

impl Served {
    fn page(&mut self) -> Option<Arc<[u8]>> {
        if let Some((_, page)) = self.made.as_ref().filter(|made| made.0.elapsed() < PAGE_AGE_MAX) {
            return Some(page.clone());
        }
        let page: Arc<[u8]> = (self.page.make)()?.into_bytes().into();
        self.made = Some((Instant::now(), page.clone()));
        Some(page)
    }

    fn answer(&mut self, request: &[u8]) -> Answer {
        let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|&byte| byte == b' ');
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let path = target.split(|&byte| byte == b'?').next();
        let is_asked = path == Some(self.page.path.as_bytes());
        let content_type = self.page.content_type;
        match method {
            Some(b"GET") if is_asked => match self.page() {
                Some(page) => Answer::new("200 OK", content_type, page, true),
                None => Answer::text("500 Internal Server Error", "no statistics available\n"),
            },
            Some(b"HEAD") if is_asked => match self.page() {
                Some(page) => Answer::new("200 OK", content_type, page, false),
                None => Answer::text("500 Internal Server Error", ""),
            },
            _ => {
                let text = format!("only GET {} is supported\n", self.page.path);
                Answer::text("404 Not Found", &text)
            }
        }
    }
}

struct Answer {
    head: Vec<u8>,
    body: Arc<[u8]>,
    sent: usize,
}

impl Answer {
    fn new(status: &str, content_type: &str, body: Arc<[u8]>, has_body: bool) -> Answer {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        let body = if has_body { body } else { Arc::default() };
        Answer { head: head.into(), body, sent: 0 }
    }

    fn text(status: &str, text: &str) -> Answer {
        Answer::new(status, "text/plain; charset=utf-8", text.as_bytes().into(), true)
    }

    fn rest(&self) -> &[u8] {
        match self.head.get(self.sent..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => &self.body[self.sent - self.head.len()..],
        }
    }
}

struct Connection {
    socket: TcpStream,
    until: Instant,
    request: Vec<u8>,
    answer: Option<Answer>,
}

impl Connection {
    fn polled(&self) -> PollFd<'_> {
        let awaited = if self.answer.is_none() { PollFlags::IN } else { PollFlags::OUT };
        PollFd::new(&self.socket, awaited)
    }

    /// Reads and writes what is possible at once; false if the connection is over.
    fn progress(&mut self, served: &mut Served) -> bool {
        while self.answer.is_none() {
            let mut bytes = [0; 2048];
            match self.socket.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.request.extend_from_slice(&bytes[..count]),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            if self.request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                self.answer = Some(served.answer(&self.request));
            } else if self.request.len() > REQUEST_BYTES_MAX {
                let status = "431 Request Header Fields Too Large";
                self.answer = Some(Answer::text(status, "request too long\n"));
            }
        }
        self.send()
    }

    /// Sends what is possible at once; false if the connection is over.
    fn send(&mut self) -> bool {
        let Some(answer) = &mut self.answer else { return false };
        while !answer.rest().is_empty() {
            match self.socket.write(answer.rest()) {
                Ok(count) => answer.sent += count,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        // A client that has gone away needs no farewell.
        let _ = self.socket.shutdown(Shutdown::Write);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(page: impl Fn() -> Option<String> + Send + 'static) -> HttpServer {
        let page = Page { path: "/p", content_type: "text/plain", make: Box::new(page) };
        HttpServer::start("127.0.0.1:0".parse().unwrap(), page).unwrap()
    }

    fn connect(server: &HttpServer) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        // Longer than any limit of the server.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    fn ask(server: &HttpServer, request: &str) -> String {
        let mut stream = connect(server);
        stream.write_all(request.as_bytes()).unwrap();
        read(stream)
    }

    fn read(mut stream: TcpStream) -> String {
        let mut text = String::new();
        // What was not read of a request resets the connection behind the answer.
        let _ = stream.read_to_string(&mut text);
        text
    }

    fn await_close(mut stream: &TcpStream) {
        let mut bytes = [0; 1024];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
                Err(error) => panic!("the connection stays open: {error}"),
            }
        }
    }

    #[test]
    fn the_page_is_there_under_its_path_and_nothing_else_is() {
        let server = server(|| Some("text".into()));
        for request in ["GET /p HTTP/1.1\r\n\r\n", "GET /p?a=b HTTP/1.0\r\nx: y\r\n\r\n"] {
            let text = ask(&server, request);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            assert!(text.contains("Content-Length: 4\r\n") && text.ends_with("\r\n\r\ntext"));
        }
        let head = ask(&server, "HEAD /p HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        for request in ["POST /p HTTP/1.1", "GET /", "GET p HTTP/1.1", "", "GET", "\0"] {
            let text = ask(&server, &format!("{request}\r\n\r\n"));
            assert!(text.starts_with("HTTP/1.1 404 "), "{request}: {text}");
        }
    }

    #[test]
    fn with_one_connection_too_many_the_oldest_goes() {
        let server = server(|| Some("text".into()));
        let silent: Vec<_> = (0..2 * CONNECTIONS_MAX).map(|_| connect(&server)).collect();
        silent[..CONNECTIONS_MAX].iter().for_each(await_close);
        assert!(ask(&server, "GET /p HTTP/1.1\r\n\r\n").ends_with("text"));
    }

    #[test]
    fn a_request_has_a_limit_and_a_connection_its_time() {
        let server = server(|| Some("text".into()));
        let silent = connect(&server);
        let text = ask(&server, &"x".repeat(REQUEST_BYTES_MAX + 1));
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431 "), "{text}");
        await_close(&silent);
    }

    #[test]
    fn an_answer_that_nobody_reads_holds_up_nobody() {
        let long = "x".repeat(16 << 20);
        let server = server(move || Some(long.clone()));
        let mut deaf = connect(&server);
        deaf.write_all(b"GET /p HTTP/1.1\r\n\r\n").unwrap();
        let text = ask(&server, "GET /p HTTP/1.1\r\n\r\n");
        assert!(text.len() > 16 << 20, "{} bytes", text.len());
        let rest = read(deaf);
        assert!(rest.len() <= text.len());
    }
}
