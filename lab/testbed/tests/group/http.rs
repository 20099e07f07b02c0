//! A server of HTTP behind fronts on a ring, one of whose nodes is killed under load.

use std::io::Write;
use std::path::{Path, PathBuf};

use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::command;
use truechimer_testbed::temp;

use crate::front::{Killed, Local, runs, times_of};
use crate::pools::{answer_of, java_server, refused};

const MEMBERS: [u32; 3] = [1, 2, 3];

/// A client with several connections: prints the bodies of the answers.
const CLIENTS: &str = r"
import socket, sys, threading, time
printing = threading.Lock()
def connect():
    for attempt in range(600):
        try:
            return socket.create_connection(('127.0.0.1', 7001), 60)
        except OSError:
            time.sleep(0.1)
def get(stream, lines):
    stream.sendall(b'GET / HTTP/1.1\r\nHost: here\r\n\r\n')
    length, line = 0, b''
    while line != b'\r\n':
        line = lines.readline()
        if not line: raise ConnectionError
        if line.lower().startswith(b'content-length:'): length = int(line.split(b':')[1])
    body = lines.read(length)
    if len(body) < length: raise ConnectionError
    return body.decode().strip()
def ask():
    stream = connect()
    lines = stream.makefile('rb')
    for number in range(int(sys.argv[1])):
        try:
            body = get(stream, lines)
        except ConnectionError:
            sys.exit('cut off')
        with printing: print(body, flush=True)
    done.append(1)
done = []
threads = [threading.Thread(target=ask) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if len(done) < len(threads): sys.exit('cut off')
print('all', flush=True)
";

/// Answers of the survivors, by the time of their requests, ns. Each of their clients asks so often, on each of four
/// connections.
fn answers(program: &[String], asks: u32) -> Option<Vec<(i64, String)>> {
    let lines = 2 * 4 * asks as usize;
    // A runtime of many threads may take seconds for its first answer on a busy machine.
    let options = ["--protocol", "bytes", "--patience", "60s"];
    let case = Killed { program, options: &options, client: CLIENTS, asks, lines };
    let record = case.run()?;
    let times = times_of(&record);
    assert!(times.is_sorted_by(|a, b| a < b), "never back, over the fail-over");
    Some(times.into_iter().zip(record.lines().map(str::to_owned)).collect())
}

const NGINX: &str = r#"
daemon off; master_process off; pid nginx.pid; error_log stderr;
events { }
http {
    access_log off; keepalive_requests 100000000; keepalive_timeout 1h;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server { listen 127.0.0.1:7000; location / { default_type text/plain; return 200 ":$msec\n"; } }
}
"#;

/// Loop of nginx, which is edge-triggered, and keeps the time of the loop's last turn.
#[test]
fn nginx_on_a_ring_goes_on_when_a_node_is_killed() {
    let Some(nginx) = or_skip(runs("nginx")) else { return };
    let dir = temp::Dir::new();
    std::fs::write(dir.join("nginx.conf"), NGINX).unwrap();
    let (nginx, prefix) = (nginx.display().to_string(), dir.path().display().to_string());
    let config = dir.join("nginx.conf").display().to_string();
    let program = [nginx.as_str(), "-p", &prefix, "-c", &config].map(String::from);
    let Some(answers) = answers(&program, 60) else { return };
    for (time, answer) in answers {
        let ms = time / 1_000_000;
        let own = format!(":{}.{:03}", ms / 1000, ms % 1000);
        assert!(answer.contains(&own), "the time of the request, {own}: {answer}");
    }
}

/// Pools of threads, to which one hands each request on.
#[test]
fn javas_http_server_on_a_ring_goes_on_when_a_node_is_killed() {
    let dir = temp::Dir::new();
    let Some(java) = or_skip(java_server(&dir)) else { return };
    for kind in ["fixed", "cached"] {
        let Some(answers) = answers(&java(kind, 7000), 20) else { return };
        for (time, answer) in answers {
            let ms = time / 1_000_000;
            let own = format!(":{ms} {ms}");
            assert!(answer.contains(&own), "{kind}: the time of the request, {own}: {answer}");
        }
    }
}

/// The repository's folder.
fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap()
}

/// Compiles a program in Go; one that uses the group's package, if it names it.
fn go_program(dir: &temp::Dir, source: &str, cgo: bool) -> Result<String, Lacking> {
    let go = runs_go()?;
    let (folder, program) = (dir.join("go"), dir.join("server"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("main.go"), source).unwrap();
    let package = format!(
        "require truechimer/group v0.0.0\nreplace truechimer/group => {}\n",
        root().join("group/go").display()
    );
    let package = if source.contains("\"truechimer/group\"") { package } else { String::new() };
    std::fs::write(folder.join("go.mod"), format!("module example\n\ngo 1.19\n\n{package}"))
        .unwrap();
    let mut build = command(&go);
    build.args(["build", "-o"]).arg(&program).current_dir(&folder);
    build.env("CGO_ENABLED", if cgo { "1" } else { "0" });
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(program.display().to_string())
}

fn runs_go() -> Result<PathBuf, Lacking> {
    let path = truechimer_testbed::binary::system("go");
    let ran = std::process::Command::new(&path).arg("version").output();
    ran.map(|_| path).map_err(|why| Lacking(format!("go: {why}")))
}

/// The program that the documentation shows.
fn documented_in_go() -> String {
    let page = std::fs::read_to_string(root().join("docs/use/group-exec.md")).unwrap();
    let (_, begins) = page.split_once("```go\n").expect("it shows one");
    begins.split_once("```").unwrap().0.to_owned()
}

#[test]
fn gos_http_server_on_a_ring_goes_on_when_a_node_is_killed() {
    let dir = temp::Dir::new();
    let Some(program) = or_skip(go_program(&dir, &documented_in_go(), false)) else { return };
    let Some(answers) = answers(&[program, "7000".into()], 60) else { return };
    for (time, answer) in answers {
        assert!(answer.contains(&format!(":{time} ")), "the time of the request: {answer}");
    }
}

/// Handlers that sleep, that have other goroutines work, and that are sent bodies in pieces: the time of a request stands
/// from the beginning of its handler to its end.
const GO: &str = r#"
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"truechimer/group"
)

func main() {
	front, err := group.Attach(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	count := 0
	times := make(chan int64)
	handle := func(out http.ResponseWriter, request *http.Request) {
		first, _ := front.Now()
		body, _ := io.ReadAll(request.Body)
		go func() {
			if request.URL.Path == "/nap" {
				time.Sleep(30 * time.Millisecond)
			}
			last, _ := front.Now()
			times <- last.UnixNano()
		}()
		count++
		fmt.Fprintf(out, ":%d %d %d %s\n", first.UnixNano(), <-times, count, body)
	}
	log.Fatal(front.Serve(listener, &http.Server{Handler: http.HandlerFunc(handle)}))
}
"#;

#[test]
fn gos_http_server_answers_alike() {
    for cgo in [false, true] {
        let dir = temp::Dir::new();
        let Some(server) = or_skip(go_program(&dir, GO, cgo)) else { return };
        let line = |port: u16, _: &Path| vec![server.clone(), port.to_string()];
        let local = Local::start(line, &["--protocol", "bytes"]);
        let (get, nap) =
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET /nap HTTP/1.1\r\nHost: h\r\n\r\n");
        let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\n";
        std::thread::scope(|scope| {
            for (at, member) in [1, 2, 3, 1, 2, 3].into_iter().enumerate() {
                let mut client = local.client(member);
                scope.spawn(move || {
                    for round in 0..20 {
                        let pieces = match (at + round) % 4 {
                            0 => vec![nap],
                            1 => vec![post, "abc", "def"],
                            _ => vec![get],
                        };
                        for piece in &pieces {
                            client.stream.write_all(piece.as_bytes()).unwrap();
                        }
                        let body = answer_of(&mut client);
                        let words: Vec<&str> = body[1..].split_whitespace().collect();
                        assert_eq!(words[0], words[1], "time stands during a request");
                        assert_eq!(words.get(3), (pieces.len() == 3).then_some(&"abcdef"));
                    }
                });
            }
        });
        // A body's pieces are requests of the order as well, if they come apart.
        let records = local.records(&MEMBERS, 120);
        for other in &records[1..] {
            records[0].lines().zip(other.lines()).for_each(|(one, other)| assert_eq!(one, other));
        }
    }
}

const PLAIN: &str = r#"
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"#;

/// One that knows nothing of the front, linked statically or with C's library.
#[test]
fn one_in_go_that_knows_no_front_is_refused_at_the_first_request() {
    for cgo in [false, true] {
        let dir = temp::Dir::new();
        let Some(server) = or_skip(go_program(&dir, PLAIN, cgo)) else { return };
        let by_shell = |port: u16, _: &Path| -> Vec<String> {
            vec![
                "sh".into(),
                "-c".into(),
                format!("setpriv --pdeathsig KILL -- {server} {port}; true"),
            ]
        };
        refused(
            Local::start(by_shell, &["--protocol", "bytes"]),
            "GET / HTTP/1.1\r\nHost: h\r\n\r",
        );
    }
}

/// Tests of the package itself, with Go's race detector, and what its own tools find.
#[test]
fn go_finds_nothing_wrong() {
    let Some(go) = or_skip(runs_go()) else { return };
    let race = std::process::Command::new("gcc").arg("--version").output().is_ok();
    let run = |name: &Path, words: &[&str], of: (&str, &str)| {
        let mut command = command(name);
        command.args(words).env("CGO_ENABLED", "0").env(of.0, of.1);
        let output = command.current_dir(root().join("group/go")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{words:?} {of:?}: {said}");
        said
    };
    run(&go, &["vet", "."], ("CGO_ENABLED", "0"));
    // It has no file for one processor alone: of others the types are looked at, without all that is imported compiled for
    // each.
    let dir = temp::Dir::new();
    let types = dir.join("types");
    let source = "../../clock/go/internal/types/main.go";
    run(&go, &["build", "-o", types.to_str().unwrap(), source], ("CGO_ENABLED", "0"));
    for other in ["amd64", "arm64", "riscv64", "s390x"] {
        let said = run(&types, &[], ("GOARCH", other));
        assert!(said.starts_with(&format!("{other}: ")), "{said}");
    }
    let gofmt = go.with_file_name("gofmt");
    assert_eq!(run(&gofmt, &["-l", "."], ("GOARCH", "amd64")), "", "not formatted");
    let test: &[&str] =
        if race { &["test", "-count=1", "-race", "."] } else { &["test", "-count=1", "."] };
    run(&go, test, ("CGO_ENABLED", if race { "1" } else { "0" }));
}
