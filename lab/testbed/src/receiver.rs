//! A satellite receiver that gpsd listens to: sentences of NMEA 0183 over TCP.

use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use truechimer_time::Date;

const SECOND_NS: i64 = 1_000_000_000;
/// Time after the beginning of a second at which its sentences leave, as a serial line needs some.
const LATE_NS: i64 = 50_000_000;

/// Serves one client, until that goes away or `has_ended` says so: the sentences of each second of this clock, Unix ns.
pub fn serve(listener: &TcpListener, now_ns: impl Fn() -> i64, has_ended: impl Fn() -> bool) {
    let Ok((mut gpsd, _)) = listener.accept() else { return };
    while !has_ended() {
        let second = now_ns().div_euclid(SECOND_NS) + 1;
        let wait = second * SECOND_NS + LATE_NS - now_ns();
        thread::sleep(Duration::from_nanos(u64::try_from(wait).unwrap_or(0)));
        if gpsd.write_all(sentences(second).as_bytes()).is_err() {
            return;
        }
    }
}

/// Sentences of a receiver that has a fix, for the second that begins at this Unix time: gpsd takes the time from the last.
fn sentences(unix_s: i64) -> String {
    let Date { year, month, day } = Date::of(unix_s.div_euclid(86_400));
    let of_day = unix_s.rem_euclid(86_400);
    let time = format!("{:02}{:02}{:02}.00", of_day / 3600, of_day / 60 % 60, of_day % 60);
    [
        format!(
            "GPRMC,{time},A,4807.038,N,01131.000,E,000.0,000.0,{day:02}{month:02}{:02},,,A",
            year % 100
        ),
        format!("GPGGA,{time},4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,"),
        format!("GPZDA,{time},{day:02},{month:02},{year},00,00"),
    ]
    .map(|text| {
        let sum = text.bytes().fold(0, |sum, byte| sum ^ byte);
        format!("${text}*{sum:02X}\r\n")
    })
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_told_by_date_and_time_with_check_sums() {
        let told = sentences(1_782_863_401);
        assert!(told.starts_with("$GPRMC,235001.00,A,"), "{told}");
        assert!(told.ends_with("$GPZDA,235001.00,30,06,2026,00,00*60\r\n"), "{told}");
    }
}
