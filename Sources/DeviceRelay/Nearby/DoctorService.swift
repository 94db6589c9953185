// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Answers other devices of the account that look for what hinders direct connections. A caller is a confirmed endpoint, which may lie all the
/// same: it gets no more than the limits of `DiagnosisGate`, and only addresses are dialled that a direct session could use.
final class DoctorService {
    private typealias Messages = DoctorMessages
    private let loop: EndpointLoop
    private let clock: RelayClock
    /// `nil` if the local network is not used.
    private let nearby: NearbyNetwork?
    /// How long to listen for the caller's packet.
    private let patience: Duration
    private var gate = DiagnosisGate()

    /// - Parameter patience: How long to listen for the caller's packet, which repeats it once a second.
    init(_ loop: EndpointLoop, clock: RelayClock, nearby: NearbyNetwork?, patience: Duration = .seconds(3)) {
        (self.loop, self.clock, self.nearby, self.patience) = (loop, clock, nearby, patience)
    }

    var service: AppService {
        let (loop, bound, patience) = (loop, NIOLoopBound(Weak(self), eventLoop: loop.eventLoop), patience)
        return AppService(Messages.info.name) { connection, caller in
            let peer = caller.endpoint
            try await connection.respond(concurrently: 4) { request in
                let message = request.message
                switch message["Type"]?.string {
                case Messages.Look.type:
                    guard let response = await loop.run(bound, { $0.object?.look }) else { throw AppServiceError(.cancelled) }
                    return try ValueSetEncoder().encode(response)
                case Messages.Hear.type:
                    let probe = try Self.probe(try Messages.decode(Messages.Hear.self, message).nonce)
                    let answer = try await loop.run(bound) { service in
                        Result { try service.object?.begin(.hear) { await $0.hear(probe, within: patience) } }
                    }.get()
                    return try ValueSetEncoder().encode(Messages.Hear.Response(isHeard: try await Self.value(answer)))
                case Messages.Say.type:
                    let probe = try Self.probe(try Messages.decode(Messages.Say.self, message).nonce)
                    let answer = try await loop.run(bound) { service in
                        Result { try service.object?.begin(.say) { await $0.say(probe) } }
                    }.get()
                    return try ValueSetEncoder().encode(Messages.Say.Response(isHeard: try await Self.value(answer)))
                case Messages.Dial.type:
                    let dial = try Messages.decode(Messages.Dial.self, message)
                    let addresses = dial.addresses.compactMap(IPAddress.init(bytes:))
                    guard dial.addresses.count <= NearbyReach.maximumNamed, addresses.count == dial.addresses.count,
                        dial.port >= NearbyReach.firstPort
                    else { throw Messages.invalid }
                    let answer = try await loop.run(bound) { service in
                        Result { try service.object?.begin(.dial) { await $0.dial(addresses, port: dial.port, of: peer) } }
                    }.get()
                    return try ValueSetEncoder().encode(Messages.Dial.Response(reports: try await Self.value(answer)))
                default: throw Messages.invalid
                }
            }
        }
    }

    private static func probe(_ nonce: [UInt8]) throws -> MulticastProbe {
        guard let probe = MulticastProbe(nonce: nonce) else { throw Messages.invalid }
        return probe
    }

    private static func value<Value>(_ answer: OneShot<Value>?) async throws -> Value {
        guard let value = await answer?.wait() else { throw AppServiceError(.cancelled) }
        return value
    }

    private var look: Messages.Look.Response {
        Messages.Look.Response(
            time: loop.wallTime,
            hour: clock.hour,
            isUsed: nearby != nil,
            port: nearby?.port,
            addresses: nearby?.namedAddresses.map(\.bytes) ?? []
        )
    }

    /// Begins what the limits permit. It goes on if the caller waits no longer, and nothing else of its kind begins before its end.
    private func begin<Answer: Sendable>(
        _ work: DiagnosisGate.Work,
        _ body: @escaping @Sendable (NearbyNetwork) async -> Answer
    ) throws -> OneShot<Answer> {
        guard nearby != nil else { throw AppServiceError(.disabledByPolicy, message: "this device does not use the local network") }
        guard work == .dial || nearby?.service.canProbe ?? false else {
            throw AppServiceError(.disabledByPolicy, message: "this device's system shows no packets of multicast DNS")
        }
        guard gate.begin(work, at: Milliseconds(clamping: loop.now)) else {
            throw AppServiceError(.resourceLimitsExceeded, message: "another diagnosis was begun just now; try again in 10 s")
        }
        let answer = OneShot<Answer>()
        loop.spawn(self) { service in
            if let nearby = service.nearby { answer.settle(await body(nearby)) }
            service.gate.end(work)
        }
        return answer
    }
}
