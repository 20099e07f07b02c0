//! `docs/clock-page.md` against the code.
