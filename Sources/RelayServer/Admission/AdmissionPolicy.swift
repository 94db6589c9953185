// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// How much of the relay a connection may take, so that no flood of connections or of messages keeps others waiting. Each number names the
/// test, or the attack of `UnderAttackTests` (`scripts/attack`), that it is for.
struct AdmissionPolicy: Sendable {
    static let standard = AdmissionPolicy()

    // MARK: Connections that nobody is authenticated on

    /// Above this number of unauthenticated connections, each gets less. "requests byte by byte"; below it everybody is served at once.
    let manyUnauthenticated = 256
    /// A trusted proxy may have this many times an address's share without a request. `ProxyAttackTests`.
    let proxyFactor = 16

    // MARK: Accepting

    /// How many connections are set up before the loop serves the others. "opens and closes".
    let setUpAtOnce = 4
    /// How long the others are served then: 2,000 connections in a second at most. "opens and closes".
    let acceptPause = TimeAmount.milliseconds(2)
    /// The same while many are unauthenticated: 1,000. "connections that say nothing".
    let longAcceptPause = TimeAmount.milliseconds(4)
    /// How many are accepted until then. More than are set up, so that the system's queue has room when all endpoints come at once; few
    /// enough that one that is reset in the queue is never set up. "opens and closes".
    let acceptedAtOnce = 16
    /// How many accepted connections wait to be set up. The system's queue holds `RelayService.backlog` more. "connections that say nothing".
    let maximumAcceptLine = 8_192

    // MARK: Reads before authentication

    /// How many small reads a connection has without delay while many are unauthenticated: one more than TLS, a request and a `hello` are.
    /// "requests byte by byte", "TLS hellos byte by byte".
    let readsWithoutDelay = 5
    /// The delay of each further read. "requests byte by byte", "tunnel prefaces byte by byte".
    let readDelay = TimeAmount.seconds(1)

    // MARK: Sizes of reads

    /// Before authentication, and of control channels; holds most messages of one. A connection keeps the last read's buffer. "connections
    /// that say nothing".
    let smallRead = 512
    /// The first read of a tunnel's WebSocket.
    let usualRead = 2_048
    /// The largest read of a control channel: what it brings is served before the loop looks at other sockets. "requests whose answers are
    /// not read, of an account".
    let controlRead = 8 << 10
    /// The largest read of a tunnel's WebSocket. "a tunnel that is not read".
    let largestRead = 64 << 10

    // MARK: Reads of a control channel

    /// After so many bytes the loop's other channels are served. "messages of 500 KiB, of an account".
    let bytesPerTurn = 128 << 10
    /// The least that a message counts, for what it makes the relay do. "requests whose answers are not read, of an account".
    let minimumPerMessage = 4 << 10
    /// What any other frame counts, and one that waits counts beyond its bytes. "pings whose answers are not read, of an account".
    let frameOverhead = 512
    /// How long the others are served at least: a loop looks for what arrived only when no task is due. "messages of 500 KiB, of an account".
    let turnPause = TimeAmount.microseconds(500)

    // MARK: Memory

    /// When so many connections have gone, what they left free is given back to the system. "connections that say nothing".
    let connectionsBeforeTrim = 1_000
}
