//! Days of the Gregorian calendar.

/// Days from the first of March of the year 0 to 1970-01-01. Years are counted from March here, so
/// that the leap day is the last.
const TO_1970: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// A day of the Gregorian calendar, also of years before it was in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date {
    /// Astronomical year: 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// Day of the month, from 1.
    pub day: i64,
}

impl Date {
    /// The day that is so many days after 1970-01-01, and before it if negative.
    #[must_use]
    pub const fn of(days: i64) -> Date {
        let days = days.saturating_add(TO_1970);
        let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = era * 400 + year;
        if month < 10 {
            Date { year, month: month + 3, day }
        } else {
            Date { year: year + 1, month: month - 9, day }
        }
    }

    /// Days from 1970-01-01 to it, negative before that.
    #[must_use]
    pub const fn days(self) -> i64 {
        let Date { year, month, day } = self;
        let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let days = year.saturating_mul(365).saturating_add(leap_days);
        days.saturating_add((month * 153 + 2) / 5 + day - 1 - TO_1970)
    }

    /// The first day of the month after it.
    #[must_use]
    pub const fn next_month(self) -> Date {
        let Date { year, month, .. } = self;
        let (year, month) = if month < 12 { (year, month + 1) } else { (year + 1, 1) };
        Date { year, month, day: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_of_ten_thousand_years_follows_the_one_before() {
        let mut date = Date { year: 0, month: 1, day: 1 };
        for days in -719_528..=2_932_896 {
            assert_eq!((Date::of(days), date.days()), (date, days));
            let Date { year, month, day } = date;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            date = if day < last { Date { day: day + 1, ..date } } else { date.next_month() };
        }
        assert_eq!(date, Date { year: 10_000, month: 1, day: 1 });
        assert_eq!(Date::of(0), Date { year: 1970, month: 1, day: 1 });
    }

    #[test]
    fn no_day_is_too_far_away() {
        for days in [i64::MIN, -1_000_000_000_000, 1_000_000_000_000, i64::MAX] {
            let date = Date::of(days);
            assert!((1..=12).contains(&date.month) && (1..=31).contains(&date.day), "{date:?}");
            let _ = (date.days(), date.next_month().days());
        }
    }
}
