// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

@Suite struct NodeJobsTests {
    private func started(hasLogins: Bool = true, hasWakes: Bool = true, hasNodes: Bool = false) -> NodeJobs {
        var jobs = NodeJobs(hasLogins: hasLogins, hasWakes: hasWakes, hasNodes: hasNodes)
        #expect(jobs.tick(WakeableApps(), at: 0) == [])
        #expect(jobs.start(WakeableApps(), at: 0) == (hasLogins ? [.endLogins] : []))
        return jobs
    }

    @Test func jobThatRunsIsNotStartedAgain() {
        var jobs = started()
        #expect(jobs.tick(WakeableApps(), at: 1_000) == [.endCommands, .handlePushes])
        #expect(jobs.tick(WakeableApps(), at: 2_000) == [])
        jobs.pushesRead()
        jobs.commandsRead(of: 2, mayBeMore: true, next: nil)
        #expect(jobs.tick(WakeableApps(), at: 3_000) == [.handlePushes])
        #expect(jobs.accountEnded(isStored: true) == [])
        #expect(jobs.accountEnded(isStored: true) == [.endCommands])
        #expect(jobs.tick(WakeableApps(), at: 4_000) == [])
        // What could not be stored is not retried at once.
        jobs.commandsRead(of: 2, mayBeMore: true, next: nil)
        #expect(jobs.accountEnded(isStored: false) == [])
        #expect(jobs.accountEnded(isStored: true) == [])
        #expect(jobs.tick(WakeableApps(), at: 5_000) == [.endCommands])
        jobs.commandsRead(of: 0, mayBeMore: false, next: nil)
        #expect(jobs.tick(WakeableApps(), at: 6_000) == [.endCommands])
    }

    /// The relay rests only if it knows that nothing is due before.
    @Test func restEndsWithWhatIsDueNext() {
        var jobs = started(hasWakes: false)
        func pass(_ next: Int64?) {
            _ = jobs.tick(WakeableApps(), at: 1_000)
            jobs.pushesRead()
            jobs.commandsRead(of: 0, mayBeMore: false, next: next)
        }
        #expect(jobs.nextDue == nil)
        _ = jobs.loginsEnded(at: 0)
        _ = jobs.tick(WakeableApps(), at: 1_000)
        #expect(jobs.nextDue == nil)
        jobs.commandsRead(of: 0, mayBeMore: false, next: 5_000)
        #expect(jobs.nextDue == nil)
        jobs.pushesRead()
        #expect(jobs.nextDue == 5_000)
        // Logins that could not be ended are looked for.
        pass(.max)
        #expect(jobs.nextDue == 60_000)
        // A pass that could not be read, and one that found something.
        pass(nil)
        #expect(jobs.nextDue == nil)
        pass(.max)
        _ = jobs.storeFailed()
        #expect(jobs.nextDue == nil)
        _ = jobs.storeWorks()
        #expect(jobs.nextDue == 60_000)
        _ = jobs.endLogins(at: 2_000)
        #expect(jobs.nextDue == nil)
        _ = jobs.loginsEnded(at: 2_000)
        #expect(jobs.nextDue == 62_000)
        var nodes = started(hasLogins: false, hasWakes: false, hasNodes: true)
        _ = nodes.tick(WakeableApps(), at: 1_000)
        nodes.pushesRead()
        nodes.commandsRead(of: 0, mayBeMore: false, next: .max)
        #expect(nodes.nextDue == nil)
        // The search after the start begins in time.
        var wakes = started(hasLogins: false)
        _ = wakes.tick(WakeableApps(), at: 1_000)
        wakes.pushesRead()
        wakes.commandsRead(of: 0, mayBeMore: false, next: .max)
        #expect(wakes.nextDue == Presences.startingPeriod)
    }

    @Test func loginsAreEndedAgainForWhatWasRevokedMeanwhile() {
        var jobs = started()
        #expect(jobs.endLogins(at: 10) == [])
        #expect(jobs.loginsEnded(at: 20) == [.endLogins])
        #expect(jobs.isEndingLogins)
        #expect(jobs.loginsEnded(at: 30) == [])
        #expect(!jobs.isEndingLogins)
        // Failures are retried.
        #expect(jobs.tick(WakeableApps(), at: 60_019).contains(.endLogins) == false)
        #expect(jobs.tick(WakeableApps(), at: 60_020).contains(.endLogins) == true)
        _ = jobs.loginsEnded(at: 60_020)
        jobs.stop()
        #expect(jobs.tick(WakeableApps(), at: 999_000).contains(.endLogins) == false)
    }

    @Test func unwokenEndpointsAreSearchedInStepsAfterTheStartAndAFailureOfTheStore() {
        var jobs = started()
        func tick(_ time: Int64) -> [NodeJobs.Job] {
            jobs.pushesRead()
            return jobs.tick(WakeableApps(), at: time).filter {
                if case .searchUnwoken = $0 { true } else { false }
            }
        }
        let (start, endpoint) = (
            Presences.startingPeriod, EndpointRow.sample(1, AccountID("account")).id
        )
        #expect(tick(start - 1) == [])
        #expect(tick(start) == [.searchUnwoken(after: nil)])
        #expect(tick(start) == [])
        jobs.searched(to: endpoint)
        #expect(tick(start) == [.searchUnwoken(after: endpoint)])
        jobs.searchFailed()
        #expect(tick(start) == [.searchUnwoken(after: endpoint)])
        jobs.searched(to: nil)
        #expect(tick(start) == [])
        #expect(jobs.storeFailed() == true)
        #expect(jobs.storeFailed() == false)
        #expect(jobs.tick(WakeableApps(), at: start).contains(.probeStore) == true)
        #expect(jobs.storeWorks() == true)
        #expect(jobs.storeWorks() == false)
        #expect(tick(start) == [.searchUnwoken(after: nil)])
    }

    enum StepEnd: CaseIterable { case failed, more, complete }

    /// What was read before the recovery does not have the connections that ended while the store failed.
    @Test(arguments: StepEnd.allCases) func searchThatRunsWhileTheStoreRecoversBeginsAgain(end: StepEnd) {
        var jobs = started()
        func steps() -> [NodeJobs.Job] {
            jobs.pushesRead()
            return jobs.tick(WakeableApps(), at: Presences.startingPeriod).filter {
                if case .searchUnwoken = $0 { true } else { false }
            }
        }
        let endpoint = EndpointRow.sample(1, AccountID("account")).id
        #expect(steps() == [.searchUnwoken(after: nil)])
        jobs.searched(to: endpoint)
        #expect(steps() == [.searchUnwoken(after: endpoint)])
        _ = jobs.storeFailed()
        #expect(jobs.storeWorks() == true)
        #expect(steps() == [])
        switch end {
        case .failed: jobs.searchFailed()
        case .more: jobs.searched(to: endpoint)
        case .complete: jobs.searched(to: nil)
        }
        #expect(steps() == [.searchUnwoken(after: nil)])
        jobs.searched(to: nil)
        #expect(steps() == [])
    }

    @Test func accountsAreToldWhatCanBeWokenIfItHasChanged() {
        let apps = WakeableApps([.init(.fcm)])
        var jobs = started()
        #expect(jobs.changed(WakeableApps()) == [])
        #expect(jobs.changed(apps) == [.tell(apps, version: 1)])
        let second = jobs.tick(apps, at: 1)
        #expect(second == [.endCommands, .handlePushes])
        #expect(jobs.tick(WakeableApps(), at: 2) == [.tell(WakeableApps(), version: 2)])
        var without = started(hasWakes: false)
        #expect(without.changed(apps) == [])
    }

    /// Whatever happens: each job runs once at a time, and all that can run goes on.
    @Test(arguments: 1...30 as ClosedRange<UInt64>) func randomWalk(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var jobs = started(hasNodes: true)
        var (running, now): ([NodeJobs.Job], Int64) = ([.endLogins], 0)
        func begin(_ new: [NodeJobs.Job]) {
            for job in new where job != .probeStore && job != .giveBackIdle {
                if case .tell = job { continue }
                let isSearch = if case .searchUnwoken = job { true } else { false }
                let same = running.contains { other in
                    if case .searchUnwoken = other { isSearch } else { other == job }
                }
                #expect(!same, "seed \(seed)")
                running.append(job)
            }
        }
        func end(_ job: NodeJobs.Job) {
            running.removeAll { $0 == job }
            switch job {
            case .endCommands:
                let accounts = Int.random(in: 0..<3, using: &random)
                jobs.commandsRead(of: accounts, mayBeMore: .random(using: &random), next: .random(using: &random) ? now : nil)
                for _ in 0..<accounts { begin(jobs.accountEnded(isStored: .random(using: &random))) }
            case .endLogins: begin(jobs.loginsEnded(at: now))
            case .handlePushes: jobs.pushesRead()
            case .searchUnwoken(let position):
                if .random(using: &random) {
                    jobs.searchFailed()
                } else {
                    jobs.searched(to: .random(using: &random) ? position : nil)
                }
            case .serveRequests: jobs.requestsServed()
            case .tell, .giveBackIdle, .probeStore: break
            }
        }
        for _ in 0..<500 {
            now += Int64.random(in: 0...20_000, using: &random)
            switch Int.random(in: 0..<7, using: &random) {
            case 6: jobs.nodeLeft(at: now)
            case 0, 1: begin(jobs.tick(WakeableApps(), at: now))
            case 2: begin(jobs.endLogins(at: now))
            case 3: if let job = running.randomElement(using: &random) { end(job) }
            case 4: _ = jobs.storeFailed()
            default: _ = jobs.storeWorks()
            }
        }
        while let job = running.first { end(job) }
        now += 60_000
        _ = jobs.storeFailed()
        let all = jobs.tick(WakeableApps(), at: now)
        for job in [.endCommands, .endLogins, .handlePushes, .serveRequests, .giveBackIdle, .probeStore] as [NodeJobs.Job] {
            #expect(all.contains(job), "seed \(seed)")
        }
    }
}
