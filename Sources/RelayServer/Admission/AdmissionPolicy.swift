// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// The share of the relay that one connection may take, so that a flood of connections or messages does not delay others. Each number
/// names the test, or the attack of `UnderAttackTests` (`scripts/attack`), that it is for.
struct AdmissionPolicy: Sendable {
    static let standard = AdmissionPolicy()

    // MARK: Unauthenticated connections

    /// Above this number of unauthenticated connections, each gets a smaller share. Below it, all are served immediately. "requests byte
    /// by byte".
    let manyUnauthenticated = 256
    /// The share of a trusted proxy without a request, as a multiple of an address's share. `ProxyAttackTests`.
    let proxyFactor = 16

    // MARK: Accepting

    /// How many connections are set up in one batch. "opens and closes".
    let setUpAtOnce = 4
    /// The pause after a batch, in which the loop serves established connections: at most 2,000 new connections per second. "opens and
    /// closes".
    let acceptPause = TimeAmount.milliseconds(2)
    /// The pause while many connections are unauthenticated: at most 1,000 per second. "connections that say nothing".
    let longAcceptPause = TimeAmount.milliseconds(4)
    /// How many connections are accepted per batch. More than are set up, so that the system's backlog has room when all endpoints
    /// reconnect at once; few enough that a connection reset in the backlog is never set up. "opens and closes".
    let acceptedAtOnce = 16
    /// How many accepted connections may wait to be set up. The system's backlog holds `RelayService.backlog` more. "connections that say
    /// nothing".
    let maximumAcceptLine = 8_192

    // MARK: Reads before authentication

    /// How many small reads a connection gets without delay while many are unauthenticated: one more than TLS, a request and a `hello`
    /// need. "requests byte by byte", "TLS hellos byte by byte".
    let readsWithoutDelay = 5
    /// The delay of each further read. "requests byte by byte", "tunnel prefaces byte by byte".
    let readDelay = TimeAmount.seconds(1)

    // MARK: Sizes of reads

    /// The read size before authentication, and the initial one of control channels; it fits most control messages. A connection keeps
    /// the buffer of its last read. "connections that say nothing".
    let smallRead = 512
    /// The first read of a tunnel's WebSocket.
    let usualRead = 2_048
    /// The largest read of a control channel. The loop handles all of it before it looks at other sockets. "requests whose answers are
    /// not read, of an account".
    let controlRead = 8 << 10
    /// The largest read of a tunnel's WebSocket. "a tunnel that is not read".
    let largestRead = 64 << 10

    // MARK: Read budget of a control channel

    /// The read budget in bytes. After it, the loop serves its other channels. "messages of 500 KiB, of an account".
    let readBudget = 128 << 10
    /// The minimum that a message takes from the budget, because of the work that it causes. "requests whose answers are not read, of an
    /// account".
    let minimumPerMessage = 4 << 10
    /// What any other frame takes, and what a waiting frame takes in addition to its bytes. "pings whose answers are not read, of an
    /// account".
    let frameOverhead = 512
    /// The minimum pause after the budget is used. The loop polls its sockets only when no task is due. "messages of 500 KiB, of an
    /// account".
    let readBudgetPause = TimeAmount.microseconds(500)

    // MARK: Memory

    /// After this many connections have closed, freed memory is returned to the system. "connections that say nothing".
    let connectionsBeforeTrim = 1_000
}
