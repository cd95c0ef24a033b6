//! Which faults a world has.

/// What may go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub network: bool,
    pub crashes: bool,
    pub clocks: bool,
    /// The store forgets: everything, the last seconds, or some records.
    pub amnesia: bool,
    /// Whether the store checks owner and start at begin. The twin turns it off.
    pub fence: bool,
    /// Whether the store notices that it may have forgotten. The twin turns it off.
    pub guard: bool,
    /// Whether a run whose stop was asked for keeps its slot until it is gone. The twin turns it off.
    pub drains: bool,
    /// Whether people order runs, cancel and pause.
    pub people: bool,
}

impl Faults {
    pub const ALL: Self = Self {
        network: true,
        crashes: true,
        clocks: true,
        amnesia: false,
        fence: true,
        guard: true,
        drains: true,
        people: false,
    };
    pub const AMNESIA: Self = Self { amnesia: true, ..Self::ALL };
    pub const PEOPLE: Self = Self { people: true, ..Self::ALL };
    pub const NONE: Self = Self { network: false, crashes: false, clocks: false, ..Self::ALL };
}
