//! Programs with pools of threads behind fronts, and programs that serve fewer connections at a
//! time than there are: no order of work hangs, and all replicas answer the same.

use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::process::Stdio;

use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{Process, command};
use truechimer_testbed::temp;

use crate::agents::{PATIENCE, until};
use crate::front::{Client, Local, runs};

const MEMBERS: [u32; 3] = [1, 2, 3];
/// Lines that the answers to two requests have at most.
const MOST_LINES: usize = 30;

/// A server of lines: `TIME` gives the time at once, anything else after some work, `NAP` after a moment of sleep if it is handed on. Its kinds:
/// `serial`, one connection at a time; `stream`, the same by a stream of C's library; `fixed`, connections wait for one
/// of two threads; `cached`, a thread for each connection, which then waits for the next one; `handed`, one thread reads,
/// two work and answer; a number, as `handed`, and each request is handed on in a way that is drawn by it: if it is even
/// only in ways that can be followed, by a condition, a semaphore, a futex or a new thread.
const SERVER: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
struct item { int fd; char line[64]; };
static struct item queue[4096];
static unsigned head, tail, idle;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static void put(struct item it) {
    pthread_mutex_lock(&lock);
    queue[tail++ % 4096] = it;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}
static struct item take(void) {
    pthread_mutex_lock(&lock);
    idle++;
    while (head == tail) pthread_cond_wait(&more, &lock);
    idle--;
    struct item it = queue[head++ % 4096];
    pthread_mutex_unlock(&lock);
    return it;
}
static void answer(int fd, const char *line) {
    struct timespec now, cpu; char text[64];
    if (strncmp(line, "TIME", 4)) {
        // Longer than it takes to see that nobody has said that he works.
        do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu); while (cpu.tv_nsec % 8000000 < 4000000);
        do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu); while (cpu.tv_nsec % 8000000 > 4000000);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    int length = snprintf(text, sizeof text, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    if (write(fd, text, length) != length) return;
}
static int line_of(int fd, char *line, size_t room) {
    for (size_t n = 0; n + 1 < room; n++) {
        if (read(fd, line + n, 1) <= 0) return 0;
        if (line[n] == '\n') { line[n + 1] = 0; return 1; }
    }
    return 0;
}
static void nap(void) { struct timespec span = { 0, 3000000 }; nanosleep(&span, 0); }
static void serve(int fd) {
    char line[64];
    while (line_of(fd, line, sizeof line)) answer(fd, line);
    close(fd);
}
static void *connections(void *none) { for (;;) serve(take().fd); return none; }
static void *requests(void *none) {
    for (;;) {
        struct item it = take();
        if (!strncmp(it.line, "NAP", 3)) nap();
        answer(it.fd, it.line);
    }
    return none;
}
static void stream(int fd) {
    char line[64]; FILE *in = fdopen(fd, "r");
    while (fgets(line, sizeof line, in)) answer(fd, line);
    fclose(in);
}
static int pipes[2], word;
static sem_t posts;
static struct item of_post, of_word;
static void *by_pipe(void *none) {
    struct item it;
    while (read(pipes[0], &it, sizeof it) == sizeof it) answer(it.fd, it.line);
    return none;
}
static void *by_post(void *none) {
    for (;;) { sem_wait(&posts); struct item it = of_post; answer(it.fd, it.line); }
    return none;
}
static void *by_word(void *none) {
    for (;;) {
        while (!__atomic_load_n(&word, __ATOMIC_ACQUIRE)) syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0);
        struct item it = of_word;
        __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
        answer(it.fd, it.line);
    }
    return none;
}
static unsigned long seed, followed;
static void *once(void *at) {
    struct item it = *(struct item *)at;
    free(at);
    if (it.line[0] == 'L' && !followed) nap();
    answer(it.fd, it.line);
    return 0;
}
static void hand(struct item it) {
    pthread_t thread; struct item *own;
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    unsigned way = seed >> 33 & 7;
    if (followed && (way == 1 || way == 6)) way = 0;
    switch (way) {
    case 0: put(it); break;
    case 1: if (write(pipes[1], &it, sizeof it) < 0) return; break;
    case 2: of_post = it; sem_post(&posts); break;
    case 3:
        if (__atomic_load_n(&word, __ATOMIC_ACQUIRE)) { answer(it.fd, it.line); break; }
        of_word = it;
        __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0);
        break;
    case 4: case 5:
        own = malloc(sizeof *own); *own = it;
        pthread_create(&thread, 0, once, own);
        pthread_detach(thread);
        break;
    case 6: nap();
    default: answer(it.fd, it.line);
    }
}
static void more_threads(void *(*run)(void *), int many) {
    pthread_t thread;
    while (many-- > 0) pthread_create(&thread, 0, run, 0);
}
int main(int count, char **words) {
    if (count < 3) return 2;
    const char *kind = words[1];
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(words[2])),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int yes = 1, l = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(l, (void *)&at, sizeof at) || listen(l, 64)) return 1;
    if (!strcmp(kind, "fixed")) more_threads(connections, 2);
    if ((seed = strtoul(kind, 0, 10))) {
        followed = !(seed & 1);
        if (pipe(pipes) || sem_init(&posts, 0, 0)) return 1;
        more_threads(by_pipe, 1); more_threads(by_post, 1); more_threads(by_word, 1);
    }
    if (!strcmp(kind, "handed") || seed) {
        more_threads(requests, 2);
        struct pollfd all[64] = { { l, POLLIN, 0 } };
        for (int many = 1;;) {
            poll(all, many, -1);
            for (int n = many - 1; n > 0; n--) {
                struct item it = { all[n].fd, "" };
                if (!all[n].revents) continue;
                if (line_of(it.fd, it.line, sizeof it.line)) seed ? hand(it) : put(it);
                else { close(it.fd); all[n] = all[--many]; }
            }
            if (all[0].revents && many < 64)
                all[many++] = (struct pollfd){ accept(l, 0, 0), POLLIN, 0 };
        }
    }
    for (;;) {
        int fd = accept(l, 0, 0);
        if (!strcmp(kind, "serial")) { serve(fd); continue; }
        if (!strcmp(kind, "stream")) { stream(fd); continue; }
        pthread_mutex_lock(&lock);
        int none = idle <= tail - head;
        pthread_mutex_unlock(&lock);
        if (!strcmp(kind, "cached") && none) more_threads(connections, 1);
        put((struct item){ fd, "" });
    }
}
"#;

/// The server, compiled with these options.
fn compiled(dir: &temp::Dir, options: &[&str]) -> Result<String, Lacking> {
    let program = dir.join("server");
    let mut compiler = command("cc");
    compiler.args(options).args(["-x", "c", "-O1", "-pthread", "-o"]).arg(&program).arg("-");
    let compiler = compiler.stdin(Stdio::piped()).spawn();
    let mut compiler = compiler.map_err(|why| Lacking(format!("cc: {why}")))?;
    compiler.stdin.take().unwrap().write_all(SERVER.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success(), "it compiles");
    Ok(program.display().to_string())
}

fn start(dir: &temp::Dir, kind: &str) -> Option<Local> {
    let server = or_skip(compiled(dir, &[]))?;
    let line = |port: u16, _: &Path| vec![server.clone(), kind.into(), port.to_string()];
    Some(Local::start(line, &["--protocol", "line"]))
}

fn sends(client: &mut Client, line: &str) {
    client.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The time in the next answer, ns.
fn time(client: &mut Client) -> i64 {
    let mut line = String::new();
    client.lines.read_line(&mut line).unwrap();
    line.trim().parse().unwrap_or_else(|_| panic!("{line:?} is no time"))
}

/// Ends all, whose replicas have done the same.
fn alike(local: Local, requests: usize) {
    let records = local.records(&MEMBERS, requests);
    assert_eq!(records[0].lines().count(), requests);
    for other in &records[1..] {
        records[0].lines().zip(other.lines()).for_each(|(one, other)| assert_eq!(one, other));
    }
}

#[test]
fn one_that_serves_one_connection_at_a_time_takes_the_next_when_that_ends() {
    let dir = temp::Dir::new();
    let Some(local) = start(&dir, "serial") else { return };
    let mut first = local.client(1);
    sends(&mut first, "TIME");
    let mut last = time(&mut first);
    // They open, and ask, before the first has ended.
    let mut others: Vec<Client> = [2, 1, 3].map(|member| local.client(member)).into();
    for other in &mut others {
        sends(other, "TIME");
    }
    for line in ["TIME", "WORK", "TIME"] {
        sends(&mut first, line);
        let now = time(&mut first);
        assert!(now > last, "{now} after {last}");
        last = now;
    }
    // One goes before it has been taken; the others get their turn, one after the other.
    drop(others.remove(1));
    drop(first);
    std::thread::scope(|scope| {
        for mut other in others {
            scope.spawn(move || {
                time(&mut other);
                for line in ["TIME", "WORK"] {
                    sends(&mut other, line);
                    time(&mut other);
                }
            });
        }
    });
    alike(local, 1 + 3 + 3 + 2 * 2);
}

#[test]
fn a_fixed_pool_has_fewer_threads_than_there_are_connections() {
    let dir = temp::Dir::new();
    let Some(local) = start(&dir, "fixed") else { return };
    for _ in 0..3 {
        let mut clients: Vec<Client> = [1, 2, 3, 1, 2].map(|member| local.client(member)).into();
        for client in &mut clients {
            sends(client, "WORK");
        }
        // Those that are served make room for the others.
        std::thread::scope(|scope| {
            for mut client in clients {
                scope.spawn(move || {
                    let first = time(&mut client);
                    sends(&mut client, "TIME");
                    assert!(time(&mut client) > first);
                });
            }
        });
    }
    alike(local, 3 * 5 * 2);
}

#[test]
fn threads_that_go_back_to_their_pool_have_done_their_work() {
    let dir = temp::Dir::new();
    let Some(local) = start(&dir, "cached") else { return };
    for round in 0..10 {
        let mut client = local.client(MEMBERS[round % 3]);
        for line in ["TIME", "WORK", "TIME"] {
            sends(&mut client, line);
            time(&mut client);
        }
    }
    alike(local, 30);
}

#[test]
fn a_request_that_is_handed_to_another_thread_is_done_when_that_has_worked() {
    let dir = temp::Dir::new();
    let Some(local) = start(&dir, "handed") else { return };
    std::thread::scope(|scope| {
        for member in MEMBERS {
            let mut client = local.client(member);
            scope.spawn(move || {
                for line in ["WORK", "NAP"].into_iter().cycle().take(30) {
                    sends(&mut client, line);
                    time(&mut client);
                }
            });
        }
    });
    let records = local.records(&MEMBERS, 90);
    assert_eq!(records[0], records[1]);
    assert_eq!(records[0], records[2]);
    // The time was that of the request, to its end.
    for line in records[0].lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words.iter().skip(2).any(|word| word.contains(words[1])), "{line}");
    }
}

/// Requests take any way between its threads: each client has its answers or is cut off, with a reason, and none
/// waits for ever.
#[test]
fn no_order_of_work_leaves_a_client_without_an_answer_or_a_reason() {
    for seed in 1..=8 {
        let dir = temp::Dir::new();
        let Some(local) = start(&dir, &seed.to_string()) else { return };
        let ask = |member: u32, lines: [&str; 3]| {
            let Some(mut client) = local.client_if_there(member) else { return 1 };
            for line in lines.into_iter().cycle().take(12) {
                let answer = client.ask_in_time(line);
                if answer.unwrap_or_else(|| panic!("seed {seed}: no answer at {member}")).is_none()
                {
                    return 1;
                }
            }
            0
        };
        let cut: u32 = std::thread::scope(|scope| {
            let ask = &ask;
            let lines = [["TIME", "WORK", "LATE"], ["WORK", "TIME", "TIME"]];
            let clients = MEMBERS.iter().flat_map(|member| lines.map(|lines| (*member, lines)));
            let clients: Vec<_> =
                clients.map(|(member, lines)| scope.spawn(move || ask(member, lines))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        // A front says so within a second.
        if cut > 0 {
            until("the status tells", || local.status().0 == 1);
        }
        let (code, troubles) = local.status();
        let said: String = local.fronts.values().map(Process::output).collect();
        let told = ["cannot go on", "closed", "withheld"].iter().any(|word| said.contains(word));
        assert!(cut == 0 || (told && code == 1), "seed {seed}: {troubles:?}\n{said}");
        assert!(cut == 0 || seed % 2 == 1, "seed {seed}: {troubles:?}");
        println!("seed {seed}: {cut} of 6 clients were cut off; {troubles:?}");
    }
}

/// Sends that request: it is cut off, and all fronts end and say that the program takes its input unseen.
pub fn refused(mut local: Local, request: &str) {
    let mut client = local.client(1);
    // What all three gave alike by then may go out.
    let mut ask = || client.ask_in_time(request).expect("it does not hang");
    assert!((0..MOST_LINES).any(|_| ask().is_none()), "it is cut off");
    for front in local.fronts.values_mut() {
        let status = front.wait(PATIENCE).expect("it ends");
        assert_eq!(status.code(), Some(1), "{}", front.output());
        let said = front.output();
        assert!(said.contains("the program takes its input unseen"), "{said}");
    }
    let (code, troubles) = local.status();
    assert_eq!(code, 1);
    let told = troubles.iter().filter(|trouble| trouble.contains("takes its input unseen"));
    assert_eq!(told.count(), 3, "{troubles:?}");
}

/// Input that is read by the streams of C's library, or by a static program, nobody sees.
#[test]
fn who_takes_input_unseen_is_refused_at_the_first_request() {
    let dir = temp::Dir::new();
    let Some(local) = start(&dir, "stream") else { return };
    refused(local, "TIME");
    // Where libc cannot be linked statically, there is nothing to show.
    let dir = temp::Dir::new();
    let Some(server) = or_skip(compiled(&dir, &["-static"])) else { return };
    let by_shell = |port: u16, _: &Path| -> Vec<String> {
        vec!["sh".into(), "-c".into(), format!("{server} serial {port}; true")]
    };
    refused(Local::start(by_shell, &["--protocol", "line"]), "TIME");
    // By itself it is started with a warning: it might have been one that starts another.
    let mut exec = command(truechimer_testbed::binary::truechimer());
    exec.args(["group", "exec", "--group", "ledger", "--member", "1", "--directory"]);
    exec.arg(dir.path()).args(["--reads", "delivery", "--", &server]);
    let output = exec.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("statically") && said.contains("a front cannot follow it"), "{said}");
}

const HTTP: &str = r#"
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
public class Server {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[1])), 64);
        server.setExecutor(words[0].equals("fixed") ? Executors.newFixedThreadPool(2) : Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            long first = System.currentTimeMillis();
            exchange.getRequestBody().readAllBytes();
            long sum = 0;
            for (int n = 0; n < 200000; n++) sum += n * 31 ^ sum;
            byte[] answer = (":" + first + " " + System.currentTimeMillis() + (sum == 1 ? "!" : "")).getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }
}
"#;

/// Body of the answer to one request.
fn get(client: &mut Client) -> String {
    client.stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    answer_of(client)
}

/// Body of the next answer.
pub fn answer_of(client: &mut Client) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(client.lines.read_line(&mut line).unwrap() > 0, "cut off");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    client.lines.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// Compiles Java's server: its command, by its kind of pool and its port.
pub fn java_server(dir: &temp::Dir) -> Result<impl Fn(&str, u16) -> Vec<String>, Lacking> {
    let (java, compiler) = (runs("java")?, runs("javac")?);
    std::fs::write(dir.join("Server.java"), HTTP).unwrap();
    let mut compile = command(&compiler);
    compile.arg("-d").arg(dir.path()).arg(dir.join("Server.java"));
    assert!(compile.status().unwrap().success(), "it compiles");
    let (java, classes) = (java.display().to_string(), dir.path().display().to_string());
    Ok(move |kind: &str, port: u16| {
        let port = port.to_string();
        [java.as_str(), "-Xshare:auto", "-cp", &classes, "Server", kind, &port]
            .map(String::from)
            .into()
    })
}

#[test]
fn javas_http_server_with_its_pools() {
    let dir = temp::Dir::new();
    let Some(java) = or_skip(java_server(&dir)) else { return };
    for kind in ["fixed", "cached"] {
        let line = |port: u16, _: &Path| java(kind, port);
        let local = Local::start(line, &["--protocol", "bytes"]);
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for member in [1, 2, 3, 1, 2, 3] {
                    let mut client = local.client(member);
                    scope.spawn(move || {
                        for _ in 0..10 {
                            let body = get(&mut client);
                            let (first, last) = body[1..].split_once(' ').unwrap();
                            assert_eq!(first, last, "{kind}: time stands during a request");
                        }
                    });
                }
            });
        }
        alike(local, 120);
    }
}
