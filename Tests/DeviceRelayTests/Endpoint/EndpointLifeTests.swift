// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import DeviceRelay

/// When an endpoint connects and disconnects.
@Suite struct EndpointLifeTests {
    @Test func suspendedEndpointConnectsOnlyToFetch() {
        var life = EndpointLife()
        #expect(!life.hasStarted && !life.isWanted)
        #expect(life.start() == true)
        #expect(life.hasStarted && life.isWanted && !life.mayPoll)
        // A running endpoint is connected already, and stays so.
        #expect(life.fetchBegins() == false)
        #expect(life.fetchEnds() == false)
        life.suspend()
        #expect(life.mayPoll && !life.isWanted)
        #expect(life.fetchBegins() == true)
        #expect(life.fetchBegins() == true)
        #expect(life.isWanted && !life.mayPoll)
        #expect(life.fetchEnds() == false)
        #expect(life.fetchEnds() == true)
        life.resume()
        #expect(life.isWanted && !life.mayPoll)
    }

    @Test func endpointOfASuspendedPlatformWaitsForItsStart() {
        var life = EndpointLife()
        life.suspend()
        #expect(!life.hasStarted && !life.isWanted && life.mayPoll)
        // A person signs in.
        #expect(life.start() == true)
        #expect(life.hasStarted)
    }

    @Test func endIsFinal() {
        var life = EndpointLife()
        #expect(life.start() == true)
        life.shutDown()
        #expect(life.start() == false)
        life.suspend()
        life.resume()
        #expect(life.fetchBegins() == false)
        #expect(life.isShutDown && !life.isWanted && !life.mayPoll && life.fetchEnds() == false)
    }

    /// Whatever happens in between, a suspended endpoint without a fetch is not wanted, and a resumed one is.
    @Test(arguments: 0..<200 as Range<UInt64>) func onlyTheLastWordCounts(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var life = EndpointLife()
        var (isSuspended, fetches) = (false, 0)
        for _ in 0..<50 {
            switch Int.random(in: 0..<5, using: &random) {
            case 0: #expect(life.start() == true)
            case 1:
                life.suspend()
                isSuspended = true
            case 2:
                life.resume()
                isSuspended = false
                #expect(life.start() == true)
            case 3:
                fetches += 1
                #expect(life.fetchBegins() == isSuspended)
            default:
                guard fetches > 0 else { continue }
                fetches -= 1
                #expect(life.fetchEnds() == (isSuspended && fetches == 0))
            }
            #expect(life.mayPoll == (isSuspended && fetches == 0))
            if life.hasStarted { #expect(life.isWanted == !(isSuspended && fetches == 0), "seed \(seed)") }
        }
    }

    /// Two pushes come while the first start waits for the storage.
    @Test func startGoesOnWhileAnyFetchRuns() {
        var life = EndpointLife()
        life.suspend()
        _ = life.fetchBegins()
        _ = life.start()
        let first = life
        _ = life.fetchBegins()
        let second = life
        #expect(life.mayGoOn(since: first) && life.mayGoOn(since: second))
        _ = life.fetchEnds()
        #expect(life.mayGoOn(since: first) && life.mayGoOn(since: second))
        _ = life.fetchEnds()
        #expect(!life.mayGoOn(since: first) && !life.mayGoOn(since: second))
        // A person signs in: it connects without a fetch.
        _ = life.start()
        var begun = life
        #expect(life.mayGoOn(since: begun))
        life.resume()
        #expect(!life.mayGoOn(since: begun))
        begun = life
        life.shutDown()
        #expect(!life.mayGoOn(since: begun))
    }
}
