//! An NTP server of a card's time, whose arrivals are stamped by the kernel.

use std::io;
use std::time::Duration;

use truechimer_counter::{Choice, Counter, nominal, resolution};
use truechimer_ntp::Log2;
use truechimer_ntp::server::respond;
use truechimer_stamp::ptp::Beside;
use truechimer_stamp::{PairLog, Received, Socket, readable};
use truechimer_time::Span;

use crate::card_clock::CardClock;
use crate::line_server::{state, timestamp};

/// Serves for ever the time of `DEVICE:SHIFT_S:LEAD_NS`. A departure is that long after the time was read for it.
pub fn serve(listen: &str, time: &str) -> Result<(), String> {
    let wrong = || format!("`{time}` is no clock: wanted DEVICE:SHIFT_S:LEAD_NS");
    let mut parts = time.split(':');
    let (Some(device), Some(ahead), Some(lead)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let lead: i64 = lead.parse().map_err(|_| wrong())?;
    let listen = listen.parse().map_err(|_| format!("`{listen}` is no address"))?;
    let card = CardClock::open(device, ahead)?;
    let counter = Counter::open(Choice::Raw).map_err(|error| error.to_string())?;
    let period = nominal(counter).map_err(|error| error.to_string())?.period;
    let mut log = PairLog::new(period, resolution(counter));
    let failed = |error: io::Error| error.to_string();
    let mut socket = Socket::bind(&listen, counter, &mut log).map_err(failed)?;
    println!("serving");
    let mut request = [0; 512];
    loop {
        readable(&socket, Duration::from_secs(60)).map_err(failed)?;
        while let Some(came) = socket.receive(counter, &mut log, &mut request).map_err(failed)? {
            let request = request.get(..came.len).unwrap_or_default();
            answer(&card, &socket, &came, request, lead).map_err(failed)?;
        }
    }
}

/// Answers a request that came.
fn answer(
    card: &CardClock,
    socket: &Socket,
    came: &Received,
    request: &[u8],
    lead: i64,
) -> io::Result<()> {
    let [unix, raw] = card.beside(Beside::Raw)?;
    let received = timestamp(unix - (raw - came.received.count.0 as i64));
    let mut state = state();
    // A client takes stamps for as coarse as this says.
    state.precision = Log2::at_least(Span::from_nanos(100));
    state.reference_timestamp = received;
    let sent = timestamp(card.beside(Beside::Raw)?[0] + lead);
    if let Some(reply) = respond(request, received, sent, &state) {
        // A reply that cannot leave is one lost on the way.
        let _ = socket.answer(&came.from, &reply);
    }
    Ok(())
}
