//! Event loops that are given several connections' requests at once. The front here is the test.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use truechimer_group_client::delivery::{CLOCK, LOOP};

use crate::front::{Front, end, port_of};
use crate::stage::until;

/// A server that answers each read with the look at which it was found, the read's number of all, and what was read.
/// Arguments: how much it reads at a time, and how: `level`, `edge`, `oneshot`, `two` (connections alternate between two
/// instances, one of which lies in the other), `dup` (a connection that says `d` is doubled), `beside` (something else is
/// edge-triggered), `threads` (every second connection is another thread's), `few` (one
/// event at a look), `late` (so, and at a `t` another thread waits for an eventfd twice, with an edge for one, and rings
/// it; the edge is told as an answer), `closes` (a connection that says `x` ends that of whoever came first), `timer` (wakes all the time).
const SERVER: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
static int size, edge, oneshot, few, closes, timer, dups, late, first = -1;
static int looks, reads, main_loop, bell, twin;
static void watch(int epoll, int operation, int fd) {
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (edge) event.events |= EPOLLET;
    if (oneshot) event.events |= EPOLLONESHOT;
    if (epoll_ctl(epoll, operation, fd, &event)) abort();
}
static void *ring(void *unused) {
    bell = eventfd(0, 0), twin = dup(bell);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = twin };
    uint64_t one = 1;
    usleep(50000); // The loop waits by then.
    epoll_ctl(main_loop, EPOLL_CTL_ADD, twin, &event);
    event.events = EPOLLIN, event.data.fd = bell;
    epoll_ctl(main_loop, EPOLL_CTL_ADD, bell, &event);
    write(bell, &one, sizeof one);
    return unused;
}
static void serve(int epoll, int fd) {
    char data[100], reply[200];
    for (;;) {
        ssize_t got = read(fd, data, size);
        if (got < 0) break;
        if (got == 0) { close(fd); return; }
        int length = sprintf(reply, "%d %d %.*s\n", looks, ++reads, (int)got, data);
        if (write(fd, reply, length) != length) abort();
        if (memchr(data, 'd', got) && dups) dup(fd);
        if (late && memchr(data, 't', got)) {
            pthread_t thread;
            pthread_create(&thread, 0, ring, 0);
        }
        if (closes && memchr(data, 'x', got) && first >= 0) { close(first); first = -1; }
        if (!edge) break;
    }
    if (oneshot) watch(epoll, EPOLL_CTL_MOD, fd);
}
static void *other(void *at) {
    int epoll = *(int *)at;
    struct epoll_event event;
    for (;;) if (epoll_wait(epoll, &event, 1, -1) == 1) serve(epoll, event.data.fd);
}
int main(int count, char **arguments) {
    size = atoi(arguments[1]);
    const char *how = arguments[2];
    edge = !strcmp(how, "edge"), oneshot = !strcmp(how, "oneshot"), few = !strcmp(how, "few");
    closes = !strcmp(how, "closes"), timer = !strcmp(how, "timer");
    dups = !strcmp(how, "dup"), late = !strcmp(how, "late");
    int two = !strcmp(how, "two"), threads = !strcmp(how, "threads");
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof own;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&own, length) || listen(listener, 20)) abort();
    getsockname(listener, (struct sockaddr *)&own, &length);
    int loop = epoll_create1(0), second = epoll_create1(0), accepted = 0;
    main_loop = loop;
    struct epoll_event events[64] = { { .events = EPOLLIN, .data.fd = listener } };
    epoll_ctl(loop, EPOLL_CTL_ADD, listener, events);
    events[0].data.fd = second;
    if (two) epoll_ctl(loop, EPOLL_CTL_ADD, second, events);
    if (!strcmp(how, "beside")) {
        events[0].events |= EPOLLET;
        epoll_ctl(loop, EPOLL_CTL_ADD, second, events);
    }
    pthread_t thread;
    if (threads) pthread_create(&thread, 0, other, &second);
    printf("%d\n", ntohs(own.sin_port));
    fflush(stdout);
    for (;;) {
        int some = epoll_wait(loop, events, few || late ? 1 : 64, timer ? 1 : -1);
        if (some > 0) looks++;
        for (int i = 0; i < some; i++) {
            int fd = events[i].data.fd;
            if (late && bell && fd == bell) {
                epoll_ctl(loop, EPOLL_CTL_DEL, bell, 0);
            } else if (late && twin && fd == twin) {
                write(first, "0 0 edge\n", 9);
            } else if (fd == second) {
                struct epoll_event inner[64];
                int more = epoll_wait(second, inner, 64, 0);
                for (int k = 0; k < more; k++) serve(second, inner[k].data.fd);
            } else if (fd == listener) {
                int new = accept4(listener, 0, 0, SOCK_NONBLOCK);
                if (new < 0) continue;
                if (accepted == 0) first = new;
                watch((two || threads) && accepted % 2 ? second : loop, EPOLL_CTL_ADD, new);
                accepted++;
            } else serve(loop, fd);
        }
    }
}
"#;

/// The server, and its connections.
struct Served {
    front: Front,
    child: Child,
    conns: Vec<Conn>,
}

struct Conn {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    port: u16,
    sent: u64,
}

/// An answer: the look, the read's number, and what was read.
type Answer = (u64, u64, String);

impl Served {
    fn start(size: usize, how: &str, conns: usize) -> Option<Served> {
        let front = Front::with(CLOCK | LOOP);
        let program = front.stage.compiled(SERVER, &[])?;
        front.page.set_time(1_893_456_000_123_456_789);
        let mut command = front.command(program);
        let mut child = command.args([&size.to_string(), how]).spawn().expect("it starts");
        let address = port_of(&mut child);
        let mut served = Served { front, child, conns: Vec::new() };
        for _ in 0..conns {
            let (stream, port) = served.front.connect(address);
            until("it accepts", || served.front.is_done(port, 0));
            let answers = BufReader::new(stream.try_clone().expect("a copy"));
            served.conns.push(Conn { stream, answers, port, sent: 0 });
        }
        // Each is read once before it can take part.
        for at in 0..conns {
            served.give(&[(at, "0")], &[at]);
            served.until_done();
            served.answer(at);
        }
        Some(served)
    }

    fn is_looped(&self, at: usize) -> bool {
        let conn = self.conns.get(at).expect("there are so many");
        self.front.page.taken(conn.port).looped
    }

    /// Gives these requests at once, but writes them in the order `written`, with pauses in which a program that looks
    /// too early would see some of them.
    fn give(&mut self, requests: &[(usize, &str)], written: &[usize]) {
        let mut list = Vec::new();
        for (at, bytes) in requests {
            let conn = self.conns.get_mut(*at).expect("there are so many");
            conn.sent += bytes.len() as u64;
            list.push((conn.port, conn.sent));
        }
        let conns = &mut self.conns;
        let gave = self.front.page.give_at_once(&list, || {
            for at in written {
                let own = requests.iter().filter(|(other, _)| other == at);
                let bytes: String = own.map(|(_, bytes)| *bytes).collect();
                let conn = conns.get_mut(*at).expect("there are so many");
                conn.stream.write_all(bytes.as_bytes()).expect("it reads");
                if written.len() > 1 {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        assert!(gave, "the program looks for long");
    }

    fn until_done(&self) {
        until("it has dealt with all", || {
            let all = |conn: &Conn| {
                let taken = self.front.page.taken(conn.port);
                taken.closed || taken.bytes == conn.sent
            };
            self.conns.iter().all(all) && self.front.page.busy() == 0
        });
    }

    fn answer(&mut self, at: usize) -> Answer {
        let mut line = String::new();
        let conn = self.conns.get_mut(at).expect("there are so many");
        conn.answers.read_line(&mut line).expect("an answer");
        let mut words = line.split_whitespace();
        let mut number = || words.next().expect("a word").parse().expect("a number");
        let (look, read) = (number(), number());
        (look, read, words.next().expect("a word").to_owned())
    }
}

#[test]
fn a_loop_finds_all_at_one_look_in_the_order_in_which_they_were_given() {
    for how in ["level", "timer"] {
        let Some(mut served) = Served::start(100, how, 5) else { return };
        assert!((0..5).all(|at| served.is_looped(at)));
        for (order, written) in [([3, 0, 4, 1], [1, 4, 0, 3]), ([4, 3, 2, 1], [1, 2, 3, 4])] {
            let requests: Vec<_> = order.iter().map(|at| (*at, "ask")).collect();
            served.give(&requests, &written);
            served.until_done();
            let answers: Vec<Answer> = order.iter().map(|at| served.answer(*at)).collect();
            let (look, read, _) = answers[0].clone();
            let expected: Vec<Answer> =
                (0..4).map(|nth| (look, read + nth, "ask".to_owned())).collect();
            assert_eq!(answers, expected, "{how}: {order:?}");
        }
        end(served.child);
    }
}

/// Whoever takes all input has accepted it, and waits for its: it takes part before it has been read.
#[test]
fn a_connection_that_the_loop_has_accepted_takes_part_at_once() {
    for (how, looped) in [("level", true), ("edge", false)] {
        let Some(served) = Served::start(100, how, 1) else { return };
        let port = served.conns[0].port;
        let first = served.front.page.taken(port);
        assert!(!first.by_looper, "nobody had taken anything when that came");
        let server = served.conns[0].stream.peer_addr().expect("connected");
        let (_stream, port) = served.front.connect(server);
        until("it accepts", || served.front.is_done(port, 0));
        let second = served.front.page.taken(port);
        assert_eq!((second.by_looper, second.looped), (true, looped), "{how}");
        end(served.child);
    }
}

/// Two requests of one connection are read in one go, as at every replica; a long one in pieces, in turn with others'.
#[test]
fn short_reads_come_in_turn() {
    let Some(mut served) = Served::start(2, "level", 3) else { return };
    served.give(&[(2, "abc"), (0, "d"), (1, "e"), (2, "fg")], &[1, 0, 2]);
    served.until_done();
    let mut answers: Vec<Answer> = [2, 2, 2, 0, 1].iter().map(|at| served.answer(*at)).collect();
    answers.sort_by_key(|answer| answer.1);
    let read: Vec<&str> = answers.iter().map(|answer| answer.2.as_str()).collect();
    assert_eq!(read, ["ab", "d", "e", "cf", "g"]);
    let looks: Vec<u64> = answers.iter().map(|answer| answer.0 - answers[0].0).collect();
    assert_eq!(looks, [0, 0, 0, 1, 2]);
    end(served.child);
}

/// Of the loop's instance the order is the front's; what is in another one is for the front to give by itself.
#[test]
fn of_several_instances_of_one_thread_the_first_takes_part() {
    let Some(mut served) = Served::start(100, "two", 4) else { return };
    let looped: Vec<bool> = (0..4).map(|at| served.is_looped(at)).collect();
    assert_eq!(looped, [true, false, true, false]);
    for written in [[0, 2], [2, 0]] {
        served.give(&[(2, "a"), (0, "b")], &written);
        served.until_done();
        let (one, two) = (served.answer(2), served.answer(0));
        assert_eq!((two.0, two.1), (one.0, one.1 + 1), "however they came");
        served.give(&[(3, "c")], &[3]);
        served.until_done();
        assert_eq!(served.answer(3).1, two.1 + 1);
    }
    assert!(!served.is_looped(3));
    end(served.child);
}

/// The program looks at what there is, and the front is to give nothing so any more.
#[test]
fn what_does_not_come_whole_is_told() {
    let Some(mut served) = Served::start(100, "level", 2) else { return };
    let list = [0, 1].map(|at| (served.conns[at].port, 3));
    let conns = &mut served.conns;
    assert!(served.front.page.give_at_once(&list, || {
        for conn in conns {
            conn.stream.write_all(b"a").expect("it reads");
            conn.sent += 1;
        }
    }));
    until("it says so", || served.front.page.has_come_partly());
    served.until_done();
    assert_eq!((served.answer(0).2, served.answer(1).2), ("a".into(), "a".into()));
    assert!(!served.front.page.has_several());
    end(served.child);
}

#[test]
fn one_that_is_doubled_takes_part_no_more() {
    let Some(mut served) = Served::start(100, "dup", 2) else { return };
    assert!(served.is_looped(0) && served.is_looped(1));
    served.give(&[(1, "d")], &[1]);
    served.until_done();
    served.answer(1);
    assert!(served.is_looped(0) && !served.is_looped(1));
    end(served.child);
}

/// Where the program asks for one event at a time, others are still in their order, however they came.
#[test]
fn one_event_at_a_look() {
    let Some(mut served) = Served::start(100, "few", 3) else { return };
    for written in [[1, 2, 0], [0, 2, 1], [2, 0, 1]] {
        served.give(&[(1, "a"), (2, "b"), (0, "c")], &written);
        served.until_done();
        let answers: Vec<Answer> = [1, 2, 0].iter().map(|at| served.answer(*at)).collect();
        let next = |one: &Answer, next: &Answer| one.0 + 1 == next.0 && one.1 + 1 == next.1;
        assert!(answers.is_sorted_by(next), "{written:?}: {answers:?}");
    }
    end(served.child);
}

#[test]
fn a_connection_that_the_program_ends_in_the_middle_holds_up_nothing() {
    let Some(mut served) = Served::start(100, "closes", 3) else { return };
    served.give(&[(1, "a"), (2, "x"), (0, "c")], &[0, 1, 2]);
    served.until_done();
    assert!(served.front.page.taken(served.conns[0].port).closed);
    let answers: Vec<Answer> = [1, 2].iter().map(|at| served.answer(*at)).collect();
    assert_eq!(answers[1].1, answers[0].1 + 1);
    let mut line = String::new();
    assert!(served.conns[0].answers.read_line(&mut line).unwrap_or(0) == 0, "{line}");
    // The others go on at once.
    served.give(&[(2, "d"), (1, "e")], &[1, 2]);
    served.until_done();
    assert_eq!(served.answer(2).1 + 1, served.answer(1).1);
    end(served.child);
}

/// The front sees that such programs are to be given one request at a time, before it gives more.
#[test]
fn edges_single_shots_and_threads_are_told() {
    for how in ["edge", "oneshot", "beside"] {
        let Some(mut served) = Served::start(100, how, 2) else { return };
        assert!(!served.is_looped(0) && !served.is_looped(1), "{how}");
        for at in [1, 0] {
            served.give(&[(at, "more")], &[at]);
            served.until_done();
            assert_eq!(served.answer(at).2, "more");
        }
        assert!(!served.is_looped(0) && !served.front.page.has_several(), "{how}");
        end(served.child);
    }
    let Some(served) = Served::start(100, "threads", 2) else { return };
    assert!(served.front.page.has_several());
    end(served.child);
}

/// An edge that another thread adds while the loop waits is handed out, though there is more than the program asks for.
#[test]
fn an_edge_that_comes_while_the_loop_waits_is_not_lost() {
    let Some(mut served) = Served::start(100, "late", 1) else { return };
    assert!(served.is_looped(0));
    served.conns[0].stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    served.give(&[(0, "t")], &[0]);
    assert_eq!((served.answer(0).2, served.answer(0).2), ("t".into(), "edge".into()));
    until("it is told", || !served.is_looped(0));
    end(served.child);
}

/// Without the operator's word nothing is changed.
#[test]
fn who_is_not_said_to_be_a_loop_is_none() {
    let front = Front::with(CLOCK);
    let Some(program) = front.stage.compiled(SERVER, &[]) else { return };
    front.page.set_time(1_893_456_000_123_456_789);
    let mut child = front.command(program).args(["100", "level"]).spawn().expect("it starts");
    let (mut stream, port) = front.connect(port_of(&mut child));
    until("it accepts", || front.is_done(port, 0));
    stream.write_all(b"ask").expect("it reads");
    until("it has dealt with it", || front.is_done(port, 3));
    assert!(!front.page.taken(port).looped);
    end(child);
}
