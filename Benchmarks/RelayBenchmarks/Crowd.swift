// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol

/// Endpoints that connect, publish and watch, and are idle otherwise. Each time all of them have done so, it prints a
/// line with the seconds that this took, the reasons for which connections and attempts ended, and how many of those ends
/// were errors.
///
/// Standard input says `there` and `away` when the relay starts and stops. An end is an error if its attempt began while
/// the relay was there, or if the relay's absence does not explain it. Runs until standard input ends.
struct Crowd: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var count = 1_000
    @Option(help: "How many of them are of one person.") var devices = 10
    @Option(help: "How many may be connecting at once.") var pace = 100

    func run() async throws {
        let (target, persons) = (try setting.target(), try setting.persons())
        guard persons.count * devices >= count else { throw ValidationError("\(count) endpoints need more persons") }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let state = State(count: count, pace: pace)
        let keys = LightEndpoint.Keys()
        // The first device of each person learns the account's name for the others.
        let people = (count + devices - 1) / devices
        state.makeNext = { number in
            let (person, name) = (number % people, "Device \(number)")
            let account = number < people ? nil : state.all[person].assumeIsolated { $0.account }
            let endpoint = LightEndpoint(name, at: target, person: persons[person], account: account, keys: keys, on: loop)
            state.all.append(endpoint)
            endpoint.assumeIsolated { $0.start(state.delegate(of: number)) }
        }
        loop.execute { state.begin() }
        while let line = readLine() {
            let there: NIODeadline? = line == "there" ? .now() : nil
            loop.execute { state.thereSince = there }
        }
    }

    /// Used on one event loop.
    private final class State: @unchecked Sendable {
        let count: Int
        let pace: Int
        var makeNext: (Int) -> Void = { _ in }
        var all: [LightEndpoint] = []
        private var made = 0
        private var up: Set<Int> = []
        private var since = NIODeadline.now()
        /// Since when the relay has been there; `nil` while it is away.
        var thereSince: NIODeadline? = .now()
        private var ends: [String: Int] = [:]
        private var errors: [String: Int] = [:]

        init(count: Int, pace: Int) { (self.count, self.pace) = (count, pace) }

        func begin() {
            since = .now()
            for _ in 0..<min(pace, count) { next() }
        }

        private func next() {
            guard made < count else { return }
            made += 1
            makeNext(made - 1)
        }

        func delegate(of number: Int) -> LightEndpoint.Delegate {
            .init(
                connected: { endpoint in
                    do {
                        let registration = Blob<BlobKinds.AppRegistration>(try endpoint.currentRegistration().encoded)
                        endpoint.request {
                            .publish(.init(ref: $0, registration: registration))
                        } answer: {
                            self.check($1)
                        }
                        endpoint.request {
                            .watch(.init(ref: $0))
                        } answer: {
                            self.check($1)
                        }
                    } catch {
                        fail("\(error)")
                    }
                },
                disconnected: { self.down(number, $1) },
                heard: { _, message in if case .enumerationCompleted = message { self.came(number) } }
            )
        }

        private func check(_ answer: ControlAnswer) {
            if case .failure(let failure) = answer { errors["refused: \(failure.code.rawValue)", default: 0] += 1 }
        }

        private func came(_ number: Int) {
            guard up.insert(number).inserted else { return }
            next()
            guard up.count == count else { return }
            let took = Double((NIODeadline.now() - since).nanoseconds) / 1e9
            say("{\"up\": \(count), \"seconds\": \(took), \"ends\": \(Self.json(ends)), \"errors\": \(Self.json(errors))}")
            (ends, errors) = ([:], [:])
        }

        private static func json(_ counts: [String: Int]) -> String {
            "{" + counts.sorted { $0.key < $1.key }.map { "\"\($0)\": \($1)" }.joined(separator: ", ") + "}"
        }

        private func down(_ number: Int, _ reason: DisconnectReason) {
            if up.count == count { since = .now() }
            up.remove(number)
            let text =
                switch reason {
                case .rejected(let rejected): "rejected: \(rejected.code.rawValue)"
                case .dialFailed(.unreachable(let why)): "unreachable: \(why)"
                case .dialFailed(.status(let status, _)): "status \(status)"
                case .dialFailed(.protocolError(let what)): "dial failed: \(what)"
                case .dialFailed: "dial failed"
                case .closed(let code): "closed\(code.map { " \($0)" } ?? "")"
                case .restarting: "restarting"
                case .timedOut: "timed out"
                case .silent: "silent"
                default: "other"
                }
            ends[text, default: 0] += 1
            // A relay that is away causes only closed connections and unreachable addresses.
            let isAway = text.hasPrefix("closed") || text.hasPrefix("unreachable")
            let wasThere = thereSince.map { $0 < all[number].assumeIsolated { $0.dialled } } ?? false
            if wasThere || !isAway { errors[text, default: 0] += 1 }
        }
    }
}
