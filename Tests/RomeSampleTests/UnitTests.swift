// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Testing

@testable import RomeSampleModel

/// The parts of the model that need no relay.
@MainActor @Suite(.timeLimit(.minutes(10))) struct SampleUnitTests {
    private nonisolated static let id = String(repeating: "a", count: 52)

    @Test(arguments: [
        ("https://relay.example", "https://relay.example"), (" https://relay.example/ \n", "https://relay.example"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"), ("https://[::1]:8080/#relay=\(id)", "https://[::1]:8080"),
    ])
    func addressIsRead(text: String, relay: String) throws {
        let membership = try Membership(address: text)
        #expect(membership.relay.absoluteString == relay && membership.way == .browser)
        #expect((membership.relayID == nil) == !text.contains("#"))
        #expect(try JSONDecoder().decode(Membership.self, from: try JSONEncoder().encode(membership)) == membership)
    }

    @Test(arguments: [
        "", "relay.example", "ftp://relay.example", "https://", "https:///", "https://relay.example/path", "https://relay.example/?a=b",
        "https://anna@relay.example", "https://anna:secret@relay.example", "https://relay.example/#relay=",
        "https://relay.example/#relay=x",
        "https://relay.example/#other=\(id)", "https://relay.example/#relay=\(id),invite=x", "https://re\u{0}lay.example",
        "https://a b.example",
        "https://relay.example/\u{301}",
    ])
    func wrongAddressIsRefused(text: String) {
        #expect(throws: AddressError.self) { try Membership(address: text) }
    }

    @Test func secondTapDoesNothing() async {
        let work = Work()
        let (stream, gate) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (ended, end) = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(4))
        var count = 0
        @MainActor func body() async {
            count += 1
            for await _ in stream { break }
            end.yield(Task.isCancelled)
        }
        work.run("launch", body)
        work.run("launch", body)
        while count == 0 { await Task.yield() }
        gate.yield()
        var results = ended.makeAsyncIterator()
        #expect(await results.next() == false)
        #expect(count == 1)
        // The name is free again, and the end of the owner cancels the task.
        while count == 1 {
            work.run("launch", body)
            await Task.yield()
        }
        #expect(count == 2)
        work.cancelAll()
        #expect(await results.next() == true)
    }

    @Test func endOfTheOwnerEndsTheTask() async {
        let (started, start) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (ended, end) = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(1))
        var work: Work? = Work()
        work?.run("wait") {
            start.yield()
            let (never, _) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            for await _ in never {}
            end.yield(Task.isCancelled)
        }
        for await _ in started { break }
        work = nil
        var results = ended.makeAsyncIterator()
        #expect(await results.next() == true)
    }

    @Test func logIsBounded() {
        var log = HostingLog()
        for number in 0..<(HostingLog.mostEntries + 10) { log.add("\(number)\n\u{202E}") }
        #expect(log.entries.count == HostingLog.mostEntries)
        #expect(
            log.entries.first?.text == "\(HostingLog.mostEntries + 9)\u{FFFD}\u{FFFD}" && log.entries.last?.text.hasPrefix("10") == true
        )
        #expect(Set(log.entries.map(\.id)).count == log.entries.count)
    }

    @Test func textOfOthersIsCleaned() {
        #expect(ShownText.clean("a\u{0}b\u{1B}[31m\u{2028}\u{202E}") == "a\u{FFFD}b\u{FFFD}[31m\u{FFFD}\u{FFFD}")
        #expect(ShownText.clean("👩\u{200D}👩\u{200D}👧 Grüße") == "👩\u{200D}👩\u{200D}👧 Grüße")
        #expect(ShownText.clean(String(repeating: "a", count: 10_000)).count == ShownText.mostCharacters + 1)
        #expect(
            ShownText.clean("a" + String(repeating: "\u{301}", count: 100_000)).unicodeScalars.count <= 8 * ShownText.mostCharacters + 1
        )
    }

    @Test func noticeIsSpokenWithItsKind() {
        let notice = Notice.problem("Declined on TV", "no", nextStep: "Allow it.", code: "deniedByRemoteSystem")
        #expect(notice.spoken == "Problem. Declined on TV. no. Allow it.")
        #expect(Notice.success("Connected").spoken == "Connected")
        #expect(Notice.progress("Sending").spoken.hasPrefix("In progress"))
    }

    @Test func everyFailureOfALaunchHasANextStep() {
        let codes: [RemoteLaunchError.Code] = [
            .unknown, .appUnavailable, .protocolUnavailable, .remoteSystemUnavailable, .valueSetTooLarge, .deniedByRemoteSystem,
            .invalidURI,
            .ambiguous, .notConfirmed, .failed, .expired, .cancelled, .indeterminate, .pending, .notAccepted, .relayUnavailable,
            .notSignedIn,
            .storageFailed, .submissionKeyReused,
        ]
        for code in codes { #expect(!NextStep.after(code).isEmpty, "\(code)") }
        #expect(Set(codes.map { NextStep.after($0) }).count > codes.count - 5)
        let services: [AppServiceError.Code] = [
            .appNotInstalled, .appUnavailable, .appServiceUnavailable, .remoteSystemUnavailable, .notAuthorized, .networkNotAvailable,
            .failure,
            .messageTooLarge, .wakeSuppressed, .timedOut, .unknown,
        ]
        for code in services { #expect(!NextStep.after(code).isEmpty, "\(code)") }
        let waits = Notice(AppServiceError(.wakeSuppressed, retryAfter: .seconds(90)))
        #expect(waits.nextStep.contains("Try again in") && waits.kind == .problem)
        // It may have run: the app must not say that it failed.
        #expect(Notice(AppServiceError(.timedOut)).kind == .unknown)
    }
}
