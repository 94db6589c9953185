// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOPosix
import Testing

@testable import RelayServer

/// When the relay looks for what is due.
@Suite(.timeLimit(.minutes(1))) struct PulseTests {
    private let loop = MultiThreadedEventLoopGroup.singleton.any()
    private let long = Duration.seconds(3_600)

    @Test func restEndsWithABeat() async {
        let pulse = Pulse()
        pulse.begin()
        async let rest: Void = pulse.rest(for: long, on: loop)
        pulse.beat()
        await rest
    }

    @Test func busyPulseDoesNotRest() async {
        let pulse = Pulse()
        await pulse.rest(for: long, on: loop)
        pulse.begin()
        pulse.beat()
        await pulse.rest(for: long, on: loop)
    }

    @Test func restEndsWithItsTimeAndWithItsTask() async {
        let pulse = Pulse()
        pulse.begin()
        await pulse.rest(for: .milliseconds(1), on: loop)
        let task = Task { [loop, long] in await pulse.rest(for: long, on: loop) }
        task.cancel()
        await task.value
    }

    /// However its time and the begin of a rest meet, the rest ends.
    @Test func restThatIsDueAtOnceEnds() async {
        let pulse = Pulse()
        for _ in 0..<20_000 {
            pulse.begin()
            await pulse.rest(for: .zero, on: loop)
        }
    }

    /// However a beat and the begin of a rest meet, the rest ends.
    @Test func noBeatIsLost() async {
        let pulse = Pulse()
        for _ in 0..<2_000 {
            pulse.begin()
            await withTaskGroup(of: Void.self) { group in
                group.addTask { [loop, long] in await pulse.rest(for: long, on: loop) }
                group.addTask { pulse.beat() }
            }
        }
    }
}
