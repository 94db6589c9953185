// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import DeviceRelay

/// Which path to a peer is tried when.
@Suite struct LinkRaceTests {
    @Test func firstPathStartsAtOnceAndTheOthersAtTheirTime() {
        var race = LinkRace(delays: [0, 100, 150], now: 1_000)
        #expect(race.start(now: 1_000) == [.open(path: 0), .wait(until: 1_100)])
        #expect(race.timePassed(now: 1_099) == [.wait(until: 1_100)])
        #expect(race.timePassed(now: 1_150) == [.open(path: 1), .open(path: 2)])
        #expect(race.opened(path: 2) == [.win(path: 2), .close(path: 0), .close(path: 1)])
        // A session that comes too late is ended.
        #expect(race.opened(path: 0) == [.close(path: 0)])
        #expect(race.failed(path: 1, now: 1_200).isEmpty)
        #expect(race.isOver)
    }

    @Test func onlyPathDoesNotWait() {
        var race = LinkRace(delays: [150], now: 0)
        #expect(race.start(now: 0) == [.open(path: 0)])
        #expect(race.failed(path: 0, now: 20) == [.fail(path: 0)])
    }

    @Test func failureStartsTheNextAtOnce() {
        var race = LinkRace(delays: [0, 150], now: 0)
        #expect(race.start(now: 0) == [.open(path: 0), .wait(until: 150)])
        #expect(race.failed(path: 0, now: 5) == [.open(path: 1)])
        #expect(race.timePassed(now: 150).isEmpty)
        // The last path is the most general one, whatever failed last.
        #expect(race.failed(path: 1, now: 200) == [.fail(path: 1)])
    }

    @Test func givenUpRaceClosesWhatRuns() {
        var race = LinkRace(delays: [0, 0, 500], now: 0)
        _ = race.start(now: 0)
        _ = race.failed(path: 0, now: 1)
        #expect(race.end() == [.close(path: 1)])
        #expect(race.end().isEmpty)
        #expect(race.opened(path: 1) == [.close(path: 1)])
        #expect(race.timePassed(now: 500).isEmpty)
    }

    @Test func withoutAPathThereIsNoRace() {
        var race = LinkRace(delays: [], now: 0)
        #expect(race.start(now: 0) == [.noPath])
        #expect(race.isOver)
    }

    /// A race ends exactly once, keeps at most one session, and tries every path before it fails.
    @Test(arguments: 0..<500 as Range<UInt64>) func everyRaceEndsOnce(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var now: Int64 = 0
        let count = Int.random(in: 1...6, using: &random)
        var race = LinkRace(delays: (0..<count).map { _ in Int64.random(in: -50...300, using: &random) }, now: now)
        var (opened, running, wait): (Set<Int>, Set<Int>, Int64?) = ([], [], nil)
        var (sessions, ends): (Set<Int>, Int) = ([], 0)
        func perform(_ actions: [LinkRace.Action]) {
            for action in actions {
                switch action {
                case .open(let path):
                    #expect(opened.insert(path).inserted)
                    running.insert(path)
                case .close(let path):
                    // An attempt that is given up may still succeed.
                    sessions.remove(path)
                case .wait(let time): wait = time
                case .win(let path):
                    ends += 1
                    #expect(sessions == [path])
                case .fail(let path):
                    ends += 1
                    #expect(path == count - 1 && opened.count == count && running.isEmpty)
                case .noPath: Issue.record("there are paths")
                }
            }
        }
        perform(race.start(now: now))
        while let path = running.randomElement(using: &random) ?? (race.isOver ? nil : -1) {
            now += Int64.random(in: 0...80, using: &random)
            if let time = wait, time <= now {
                wait = nil
                perform(race.timePassed(now: now))
            } else if path >= 0, random.oneIn(3) {
                running.remove(path)
                sessions.insert(path)
                perform(race.opened(path: path))
            } else if path >= 0 {
                running.remove(path)
                perform(race.failed(path: path, now: now))
            }
            if random.oneIn(200) {
                perform(race.end())
                ends = 1
            }
        }
        #expect(ends == 1 && race.isOver && sessions.count <= 1, "seed \(seed)")
    }
}
