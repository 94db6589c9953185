// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The side that shows: a person has made the device visible, and it pairs with whoever has its code or the secret of its link. Without I/O;
/// times are in milliseconds. The owner calls `tick` at the `deadline`, which each other call may change.
///
/// A code serves one attempt, and one attempt is made at a time: other callers are told that the device is busy. A wrong proof for the link
/// is a failed attempt, too.
package struct PairingOffer: Sendable {
    /// How long the device is visible.
    package static let duration: Int64 = 600_000
    /// So many failed attempts end it.
    package static let maximumFailures = 3

    /// Who asks.
    package struct Caller: Hashable, Sendable {
        /// The id that TLS has proved.
        package let id: EndpointID
        /// A number that the owner uses for this connection only.
        package let connection: UInt64

        package init(_ id: EndpointID, connection: UInt64) {
            self.id = id
            self.connection = connection
        }
    }

    package enum Action: Hashable, Sendable {
        /// The code that was shown is used up; this one follows. The link stays.
        case show(PairingCode)
        /// This endpoint has the code or the secret. The device pairs with nobody else.
        case paired(EndpointID)
        case ended(End)
    }

    /// Why the device pairs no longer, without a pairing.
    package enum End: Hashable, Sendable {
        case timedOut
        case tooManyFailures
    }

    package struct Reply: Hashable, Sendable {
        package let answer: PairingAnswer
        /// In their order.
        package let actions: [Action]
    }

    private struct Attempt: Hashable {
        let caller: Caller
        let deadline: Milliseconds
        var shower: CodePairing.Shower
    }

    /// `open` → `attempt` → `open` …, until `over`.
    private enum State: Hashable {
        case open(PairingCode)
        /// Somebody tries the code, which serves nobody else.
        case attempt(PairingCode, Attempt)
        case over
    }

    private let own: EndpointID
    private let secret: Secret<[UInt8]>
    private let end: Milliseconds
    private var state: State
    private var failures = 0

    /// - Parameter random: It must be cryptographic.
    package init(own: EndpointID, at now: Milliseconds, using random: inout some RandomNumberGenerator) {
        self.own = own
        secret = Secret(randomBytes(PairingLink.secretBytes, using: &random))
        end = Milliseconds(clamping: now.count + Self.duration)
        state = .open(PairingCode(using: &random))
    }

    /// The code to show; `nil` if the device pairs no longer.
    package var code: PairingCode? {
        switch state {
        case .open(let code), .attempt(let code, _): code
        case .over: nil
        }
    }

    /// The link to show.
    /// - Parameter places: Where this device listens now: 1 to 8.
    package func link(to places: [PairingLink.Place]) throws(PairingLinkError) -> PairingLink {
        try PairingLink(id: own, secret: secret, places: places)
    }

    /// When `tick` is to be called; `nil` if the device pairs no longer.
    package var deadline: Milliseconds? {
        switch state {
        case .open: end
        case .attempt(_, let attempt): min(attempt.deadline, end)
        case .over: nil
        }
    }

    /// - Parameter random: It must be cryptographic.
    package mutating func receive(
        _ request: PairingRequest,
        from caller: Caller,
        at now: Milliseconds,
        using random: inout some RandomNumberGenerator
    ) -> Reply {
        let before = tick(at: now, using: &random)
        let reply = answer(request, from: caller, at: now, using: &random)
        return Reply(answer: reply.answer, actions: before + reply.actions)
    }

    /// The connection is gone. An attempt on it has failed, because its caller may have learned a part of the code.
    package mutating func closed(_ caller: Caller, using random: inout some RandomNumberGenerator) -> [Action] {
        guard case .attempt(_, let attempt) = state, attempt.caller == caller else { return [] }
        return fail(using: &random)
    }

    package mutating func tick(at now: Milliseconds, using random: inout some RandomNumberGenerator) -> [Action] {
        guard let deadline, deadline <= now else { return [] }
        guard end <= now else { return fail(using: &random) }
        state = .over
        return [.ended(.timedOut)]
    }

    /// The person has stopped it. There is no action.
    package mutating func stop() { state = .over }

    private mutating func answer(
        _ request: PairingRequest,
        from caller: Caller,
        at now: Milliseconds,
        using random: inout some RandomNumberGenerator
    ) -> Reply {
        switch state {
        case .over: return Reply(answer: PairingAnswer(.notPairing), actions: [])
        case .attempt(_, let attempt) where attempt.caller != caller: return Reply(answer: PairingAnswer(.busy), actions: [])
        case .attempt(let code, let attempt): return proceed(attempt, code, request, using: &random)
        case .open(let code):
            switch request.step {
            case .commit where request.round == 0:
                guard let shower = try? CodePairing.Shower(code: code, own: own, caller: caller.id) else { break }
                let deadline = Milliseconds(clamping: now.count + CodePairing.patience)
                let attempt = Attempt(caller: caller, deadline: deadline, shower: shower)
                return proceed(attempt, code, request, using: &random)
            case .prove:
                guard let shower = try? SecretPairing.Shower(secret: secret, own: own, caller: caller.id) else { break }
                guard let proof = shower.receive(request) else { return wrong(using: &random) }
                state = .over
                return Reply(answer: PairingAnswer(.accepted, proof), actions: [.paired(caller.id)])
            // The rest of an attempt that has failed.
            case .commit, .reveal: break
            }
            return Reply(answer: PairingAnswer(.wrong), actions: [])
        }
    }

    private mutating func proceed(
        _ attempt: Attempt,
        _ code: PairingCode,
        _ request: PairingRequest,
        using random: inout some RandomNumberGenerator
    ) -> Reply {
        var attempt = attempt
        switch attempt.shower.receive(request, using: &random) {
        case .answer(let value):
            state = .attempt(code, attempt)
            return Reply(answer: PairingAnswer(.accepted, value), actions: [])
        case .paired(let value):
            state = .over
            return Reply(answer: PairingAnswer(.accepted, value), actions: [.paired(attempt.caller.id)])
        case .failed: return wrong(using: &random)
        }
    }

    private mutating func wrong(using random: inout some RandomNumberGenerator) -> Reply {
        Reply(answer: PairingAnswer(.wrong), actions: fail(using: &random))
    }

    private mutating func fail(using random: inout some RandomNumberGenerator) -> [Action] {
        failures += 1
        guard failures < Self.maximumFailures else {
            state = .over
            return [.ended(.tooManyFailures)]
        }
        let code = PairingCode(using: &random)
        state = .open(code)
        return [.show(code)]
    }
}
