// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayAgent

/// What launches may use on this machine, without any program.
@Suite struct LaunchLimitsTests {
    private func opening(programs: Int = 16, perMinute: Int = 60) -> AgentConfiguration.Opening {
        var opening = AgentConfiguration.Opening()
        (opening.programs, opening.launchesPerMinute) = (programs, perMinute)
        return opening
    }

    private func device(_ name: String) -> RemoteSystem.ID { RemoteSystem.ID(SystemID(digest: Digest256(hashing: Array(name.utf8)))) }

    @Test(arguments: [(1, 1), (3, 1), (4, 1), (8, 2), (1_000, 250)]) func newDevicesGetAQuarterAndAtLeastOneProgram(most: Int, share: Int) {
        let (limits, opening) = (LaunchLimits(), opening(programs: most))
        for _ in 0..<share { #expect(limits.beginProgram(isNew: true, opening) == nil) }
        #expect(limits.beginProgram(isNew: true, opening) == .tooManyPrograms(share, new: true))
        for _ in share..<most { #expect(limits.beginProgram(isNew: false, opening) == nil) }
        #expect(limits.beginProgram(isNew: false, opening) == .tooManyPrograms(most, new: false))
        // A program that has ended makes room for its own kind and for known devices.
        limits.endProgram(isNew: true)
        #expect(limits.beginProgram(isNew: false, opening) == nil)
        #expect(limits.beginProgram(isNew: true, opening) == .tooManyPrograms(most, new: false))
    }

    /// Otherwise SIGHUP would let a device begin anew.
    @Test func countsSurviveAChangeOfTheSettings() {
        let limits = LaunchLimits()
        for _ in 0..<3 { #expect(limits.beginProgram(isNew: false, opening()) == nil) }
        for _ in 0..<3 { #expect(limits.admit(device("a"), opening(perMinute: 3)) == nil) }
        #expect(limits.beginProgram(isNew: false, opening(programs: 2)) == .tooManyPrograms(2, new: false))
        #expect(limits.admit(device("a"), opening(perMinute: 2)) == .tooManyLaunches(perMinute: 2))
        limits.endProgram(isNew: false)
        #expect(limits.beginProgram(isNew: false, opening(programs: 2)) == .tooManyPrograms(2, new: false))
        limits.endProgram(isNew: false)
        #expect(limits.beginProgram(isNew: false, opening(programs: 2)) == nil)
        #expect(limits.admit(device("b"), opening(perMinute: 2)) == nil)
    }

    @Test func oneNewDeviceAsksAtATimeAndKnownDevicesDoNotWait() async {
        let limits = LaunchLimits()
        let answer = await limits.whileAsking(isNew: true) {
            #expect(await limits.whileAsking(isNew: true) { nil } == .othersAreAsking)
            #expect(await limits.whileAsking(isNew: false) { .declined } == .declined)
            // A refused question does not end the one that is open.
            #expect(await limits.whileAsking(isNew: true) { nil } == .othersAreAsking)
            return .noAnswer
        }
        #expect(answer == .noAnswer)
        #expect(await limits.whileAsking(isNew: true) { nil } == nil)
    }
}
