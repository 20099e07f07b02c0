//! Corosync's libraries, loaded when they are first wanted.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use crate::error::CorosyncError;

/// One of the libraries: which functions it has.
pub(crate) trait Functions: Sized + Send + Sync + 'static {
    /// Name for the dynamic linker.
    const NAME: &'static str;

    /// Finds the functions.
    ///
    /// # Safety
    /// `library` is [`Self::NAME`] and is never unloaded.
    unsafe fn find(library: &libloading::Library) -> Result<Self, libloading::Error>;
}

/// The library, loaded once.
pub(crate) fn get<F: Functions>(
    place: &'static OnceLock<Result<F, String>>,
) -> Result<&'static F, CorosyncError> {
    place
        .get_or_init(|| load(F::NAME))
        .as_ref()
        .map_err(|why| CorosyncError::NoLibrary { why: why.clone() })
}

fn load<F: Functions>(name: &str) -> Result<F, String> {
    // SAFETY: Corosync's libraries run no code of note when they are loaded.
    let library = unsafe { libloading::Library::new(name) }.map_err(|error| error.to_string())?;
    // SAFETY: it is forgotten, never unloaded.
    let functions = unsafe { F::find(&library) }.map_err(|error| error.to_string())?;
    std::mem::forget(library);
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Functions for Nothing {
        const NAME: &'static str = "libno-such-corosync.so.9";

        unsafe fn find(_: &libloading::Library) -> Result<Nothing, libloading::Error> {
            Ok(Nothing)
        }
    }

    #[test]
    fn without_the_library_it_is_said_how_to_get_it() {
        static PLACE: OnceLock<Result<Nothing, String>> = OnceLock::new();
        let Err(error) = get(&PLACE) else { panic!("found") };
        let said = error.to_string();
        assert!(said.contains(Nothing::NAME) && said.contains("libquorum5"), "{said}");
        assert!(!error.is_passing());
    }
}
