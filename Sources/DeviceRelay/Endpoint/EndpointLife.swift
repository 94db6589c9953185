// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Decides when an endpoint connects and disconnects, without I/O.
struct EndpointLife: Hashable {
    private enum Phase: Hashable {
        /// It has never connected.
        case created
        case running
        /// It connects only to fetch what waits.
        case suspended(hasStarted: Bool)
        case shutDown
    }

    private var phase = Phase.created
    /// The number of fetches that run.
    private var fetches = 0

    var hasStarted: Bool {
        switch phase {
        case .created: false
        case .suspended(let hasStarted): hasStarted
        case .running, .shutDown: true
        }
    }

    var isShutDown: Bool { phase == .shutDown }

    /// Whether it connects by itself to fetch what waits, if it polls.
    var mayPoll: Bool {
        if case .suspended = phase { fetches == 0 } else { false }
    }

    /// Whether it is to be connected, so that it connects again when an obstacle is gone.
    var isWanted: Bool {
        switch phase {
        case .created, .shutDown: false
        case .running: true
        case .suspended: fetches > 0
        }
    }

    /// The app starts it, or a person signs in. A suspended endpoint connects and stays suspended: it disconnects after the next fetch.
    /// - Returns: Whether to connect.
    mutating func start() -> Bool {
        switch phase {
        case .created: phase = .running
        case .suspended: phase = .suspended(hasStarted: true)
        case .running: break
        case .shutDown: return false
        }
        return true
    }

    /// The app suspends it. Disconnect it then.
    mutating func suspend() { if !isShutDown { phase = .suspended(hasStarted: hasStarted) } }

    /// The app resumes it. `start` follows.
    mutating func resume() { if case .suspended = phase { phase = .running } }

    /// - Returns: Whether to connect.
    mutating func fetchBegins() -> Bool {
        fetches += 1
        if case .suspended = phase { return true }
        return false
    }

    /// - Returns: Whether to disconnect.
    mutating func fetchEnds() -> Bool {
        fetches -= 1
        return mayPoll
    }

    /// Whether a start that waited meanwhile goes on. Other fetches that began or ended do not matter, as long as one of them still runs.
    /// - Parameter begun: The state right after `start`.
    func mayGoOn(since begun: EndpointLife) -> Bool { phase == begun.phase && (fetches > 0 || begun.fetches == 0) }

    mutating func shutDown() { phase = .shutDown }
}
