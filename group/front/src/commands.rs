//! Commands of RESP (Redis) that change nothing, by their names.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Commands of Redis 7 that read keys, and such as concern their connection alone. None waits for others, none may
/// write if it is given a certain argument, and none draws a random number (`RANDOMKEY`, `SRANDMEMBER` and the like), as all
/// that is random there comes from one generator of the process, which would go on at one replica alone.
const READS: &str = "\
GET,MGET,STRLEN,GETRANGE,SUBSTR,LCS,GETBIT,BITCOUNT,BITPOS,BITFIELD_RO,\
EXISTS,TYPE,TTL,PTTL,EXPIRETIME,PEXPIRETIME,DUMP,KEYS,SCAN,DBSIZE,SORT_RO,\
HGET,HMGET,HGETALL,HEXISTS,HLEN,HKEYS,HVALS,HSTRLEN,HSCAN,\
LLEN,LINDEX,LRANGE,LPOS,\
SCARD,SISMEMBER,SMISMEMBER,SMEMBERS,SINTER,SINTERCARD,SUNION,SDIFF,SSCAN,\
ZCARD,ZSCORE,ZMSCORE,ZRANK,ZREVRANK,ZCOUNT,ZLEXCOUNT,ZRANGE,ZREVRANGE,ZRANGEBYSCORE,\
ZREVRANGEBYSCORE,ZRANGEBYLEX,ZREVRANGEBYLEX,ZINTER,ZINTERCARD,ZUNION,ZDIFF,ZSCAN,\
XLEN,XRANGE,XREVRANGE,GEOPOS,GEODIST,GEOHASH,GEOSEARCH,\
TIME,PING,ECHO,INFO,COMMAND,SELECT,AUTH,HELLO,QUIT,RESET,MULTI,EXEC,DISCARD,\
CLIENT|SETINFO,CLIENT|SETNAME,CLIENT|GETNAME,CLIENT|ID";

/// Names of commands, in upper case; `CLIENT|ID` is that command with that first argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commands(BTreeSet<String>);

impl Default for Commands {
    fn default() -> Commands {
        Commands(READS.split(',').map(str::to_owned).collect())
    }
}

impl FromStr for Commands {
    type Err = String;

    fn from_str(text: &str) -> Result<Commands, String> {
        let word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|')
        };
        let name = |name: &str| {
            let parts = name.split_once('|').unwrap_or((name, "x"));
            let fits = word(parts.0) && word(parts.1);
            fits.then(|| name.to_ascii_uppercase()).ok_or(format!("'{name}' is no command's name"))
        };
        text.split(',').map(name).collect::<Result<_, _>>().map(Commands)
    }
}

impl Commands {
    /// Number of bytes at the beginning that are whole commands of these, and why what comes then is none; no reason if
    /// that is all.
    pub fn allowed(&self, request: &[u8]) -> (usize, Option<String>) {
        let mut rest = request;
        while !rest.is_empty() {
            let at = request.len() - rest.len();
            let Some((command, next)) = command(rest) else {
                let why = "what is asked here is to be whole commands of at most 64 KiB, as \
                           arrays of bulk strings";
                return (at, Some(why.into()));
            };
            if !self.has(&command) {
                let name = String::from_utf8_lossy(&command.name).escape_debug().to_string();
                return (at, Some(format!("'{name}' is none of what may be asked here")));
            }
            rest = next;
        }
        (request.len(), None)
    }

    fn has(&self, command: &Command<'_>) -> bool {
        let upper = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_uppercase();
        let name = upper(&command.name);
        let with_first = command.first.map(|first| format!("{name}|{}", upper(first)));
        !name.contains('|')
            && (self.0.contains(&name) || with_first.is_some_and(|name| self.0.contains(&name)))
    }
}

/// A command: its name, cut off where no name is that long, and its first argument.
struct Command<'a> {
    name: Vec<u8>,
    first: Option<&'a [u8]>,
}

/// The command at the beginning and what comes after it; none unless it is whole, and in the one form that leaves no
/// doubt how another reads it.
fn command(bytes: &[u8]) -> Option<(Command<'_>, &[u8])> {
    let (count, mut rest) = number(bytes, b'*').filter(|(count, _)| *count > 0)?;
    let (mut name, mut first) = (None, None);
    for at in 0..count {
        let (length, text) = number(rest, b'$')?;
        let (word, after) = text.split_at_checked(length)?;
        rest = after.strip_prefix(b"\r\n")?;
        match at {
            0 => name = Some(word),
            1 => first = Some(word),
            _ => {}
        }
    }
    let name = name?.iter().take(64).copied().collect();
    Some((Command { name, first }, rest))
}

/// The number after that mark, in digits alone, and what comes after its line.
fn number(bytes: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let rest = bytes.strip_prefix(&[mark])?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = rest.split_at_checked(digits).filter(|_| (1..=9).contains(&digits))?;
    if digits > 1 && number.starts_with(b"0") {
        return None;
    }
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest.strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resp(words: &[&str]) -> Vec<u8> {
        let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), parts.collect::<String>()).into_bytes()
    }

    #[test]
    fn reads_pass_and_all_else_does_not() {
        let commands = Commands::default();
        for words in [&["GET", "SET"][..], &["mget", "a", "b"], &["client", "id"], &["Hello", "3"]]
        {
            let request = resp(words);
            assert_eq!(commands.allowed(&request), (request.len(), None), "{words:?}");
        }
        for words in
            [&["SET", "a", "1"][..], &["CLIENT", "KILL"], &["CLIENT|ID"], &["GETEX"], &["SPOP"]]
        {
            let (length, why) = commands.allowed(&resp(words));
            assert!(length == 0 && why.unwrap().contains(words[0]), "{words:?}");
        }
        let empty = resp(&["GET", ""]);
        assert_eq!(commands.allowed(&empty), (empty.len(), None));
        // A pipeline is taken up to there.
        let first = [resp(&["GET", "a"]), resp(&["TTL", "a"])].concat();
        let all = [first.clone(), resp(&["DEL", "a"]), resp(&["GET", "a"])].concat();
        let (length, why) = commands.allowed(&all);
        assert_eq!((length, why.unwrap().contains("'DEL'")), (first.len(), true));
        let (_, why) = commands.allowed(&resp(&["A\r\n+B", "c"]));
        assert!(why.unwrap().bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
    }

    /// Whatever another might read in another way.
    #[test]
    fn only_the_plain_form_passes() {
        let commands = Commands::default();
        let get = resp(&["GET", "a"]);
        for text in [
            "GET a\r\n",
            "\r\n",
            "*2\n$3\nGET\n$1\na\n",
            "*+2\r\n$3\r\nGET\r\n$1\r\na\r\n",
            "*2\r\n$3 \r\nGET\r\n$1\r\na\r\n",
            "*2\r\n$3\r\nGETxx$1\r\na\r\n",
            "*2\r\n$-1\r\n$1\r\na\r\n",
            "*02\r\n$3\r\nGET\r\n$1\r\na\r\n",
            "*2\r\n$03\r\nGET\r\n$1\r\na\r\n",
            "*2\r\n$3\r\nGET\r\n$00\r\n\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*2\r\n$3\r\nGET\r\n",
            "*2\r\n$3\r\nGET\r\n$9999999999\r\na\r\n",
            "*",
        ] {
            let (length, why) = commands.allowed(&[&get, text.as_bytes()].concat());
            assert!(length == get.len() && why.unwrap().contains("whole commands"), "{text:?}");
        }
    }

    /// Whatever comes: what passes are whole commands of these, and passes by itself.
    #[test]
    fn of_anything_only_reads_pass() {
        let commands: Commands = "GET,TIME".parse().unwrap();
        let whole = [resp(&["GET", "a"]), resp(&["TIME"]), resp(&["SET", "a", "1"])];
        let bytes = b"*$\r\n0123GETgetTIMESX |\0\xff";
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut some, mut all) = (0, 0);
        for _ in 0..50_000 {
            let mut request = Vec::new();
            for _ in 0..random(4) {
                request.extend(&whole[random(whole.len())]);
            }
            for _ in 0..random(3) {
                let at = random(request.len() + 1);
                match request.get_mut(at) {
                    Some(byte) if random(2) == 0 => *byte = bytes[random(bytes.len())],
                    _ => request.insert(at, bytes[random(bytes.len())]),
                }
            }
            let (length, why) = commands.allowed(&request);
            assert_eq!(why.is_none(), length == request.len(), "{request:?}");
            assert_eq!(commands.allowed(&request[..length]), (length, None));
            let mut rest = &request[..length];
            while let Some((command, next)) = command(rest) {
                assert!(
                    [&b"GET"[..], b"TIME"].contains(&command.name.to_ascii_uppercase().as_slice())
                );
                rest = next;
            }
            assert!(rest.is_empty());
            some += u32::from(length > 0);
            all += u32::from(length > 0 && why.is_none());
        }
        assert!(all > 1000 && some > all, "{all} of {some}");
    }

    #[test]
    fn names() {
        let commands: Commands = "get,Client|No-Evict".parse().unwrap();
        assert_eq!(commands.allowed(&resp(&["CLIENT", "no-evict"])).1, None);
        assert!(commands.allowed(&resp(&["MGET", "a"])).1.is_some());
        for wrong in ["", "GET,", "GET SET", "A|B|C", "|B", "A|", "Ä"] {
            assert!(wrong.parse::<Commands>().is_err(), "{wrong:?}");
        }
    }
}
