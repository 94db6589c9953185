// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RomeSampleModel

/// Two samples at a real relay: finding, launching, and every way that a launch ends.
@MainActor @Suite(.serialized, .timeLimit(.minutes(10))) struct SampleLaunchTests {
    @Test func launchIsOpened() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let row = try await phone.row("TV")
            #expect(row.presence == "Online" && !row.isAsleep && row.trust == nil)
            #expect(row.spoken.contains("TV") && row.spoken.contains("Online"))
            #expect(row.targets.map(\.name) == ["Any app that opens the address", "Rome sample"])
            let launching = try await phone.launching(on: "TV", "https://films.example/42")
            await launching.launch()
            let notice = try #require(launching.notice)
            #expect(notice.kind == .success && notice.title == "Opened on TV", "\(notice)")
            #expect(notice.reason.contains("signed"))
            #expect(tv.opened == ["https://films.example/42"])
            #expect(tv.sample.hosting.log.entries.first?.text == "Phone launched https://films.example/42: opened")
            let sent = try #require(phone.sample.device?.sent)
            await sent.load()
            #expect(sent.rows.map(\.content) == ["https://films.example/42"])
            #expect(sent.rows.first?.notice.title == "Opened on TV" && sent.rows.first?.canCancel == false)
            // The app itself is the screen of its own scheme.
            launching.uri = "romesample:hello"
            await launching.launch()
            #expect(launching.notice?.kind == .success && tv.opened.count == 1)
        }
    }

    @Test func outcomesHaveAReasonAndANextStep() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let launching = try await phone.launching(on: "TV", "https://films.example/42")
            tv.sample.hosting.acceptsLaunches = false
            await launching.launch()
            #expect(launching.notice?.title == "Declined on TV" && launching.notice?.code == "deniedByRemoteSystem")
            #expect(launching.notice?.reason.contains("this device takes no launches now") == true)
            #expect(launching.notice?.nextStep.isEmpty == false)
            tv.sample.hosting.acceptsLaunches = true
            tv.takesLaunches = false
            await launching.launch()
            #expect(launching.notice?.title == "Failed on TV" && launching.notice?.reason.contains("no app has opened it") == true)
            tv.takesLaunches = true
            launching.uri = "x-unknown:42"
            await launching.launch()
            #expect(launching.notice?.title == "Nothing on TV opens this" && launching.notice?.nextStep.contains("fallback") == true)
            launching.fallback = "https://films.example/page"
            await launching.launch()
            #expect(launching.notice?.kind == .success && launching.notice?.reason.contains("fallback") == true)
            #expect(tv.opened.last == "https://films.example/page")
        }
    }

    @Test func badAddressesAreNotSent() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let launching = try await phone.launching(on: "TV", "")
            let bad = [
                "", "no scheme", "www.swift.org", "https://", "https://a\u{0}b.example", "https://a.example/\n",
                "https://a.example/\u{202E}x",
                "https://ä.example", "https://a.example:99999", "javascript", ":x",
                "https://a.example/" + String(repeating: "a", count: 9_000),
            ]
            for uri in bad {
                launching.uri = uri
                await launching.launch()
                let notice = try #require(launching.notice)
                #expect(notice.kind == .problem && notice.title == "Not sent" && notice.code == "invalidURI", "\(uri.debugDescription)")
                #expect(!notice.reason.isEmpty && !notice.nextStep.isEmpty)
                // The reason shows no character that would change the line.
                #expect(notice.reason == ShownText.clean(notice.reason))
            }
            launching.uri = "https://a.example/"
            launching.fallback = "a\u{0}b"
            await launching.launch()
            #expect(launching.notice?.code == "invalidURI")
            let sent = try #require(phone.sample.device?.sent)
            await sent.load()
            #expect(sent.rows.isEmpty && tv.opened.isEmpty)
        }
    }

    @Test func launchWaitsForADeviceThatSleeps() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let launching = try await phone.launching(on: "TV", "https://films.example/42")
            await tv.sample.suspend()
            let row = try await phone.row("TV") { $0.isAsleep }
            #expect(row.presence.hasPrefix("Asleep"), "\(row.presence)")
            async let first: Void = launching.launch()
            try await until { launching.notice?.title == "Accepted, waiting" }
            #expect(launching.notice?.kind == .progress && launching.isRunning)
            #expect(launching.notice?.reason.contains("TV is asleep") == true, "\(String(describing: launching.notice))")
            // Its cancellation came in time.
            await launching.cancel()
            await first
            #expect(launching.notice?.title == "Cancelled, was not opened")
            // The screen goes away: the launch does not.
            let screen = Task { await launching.launch() }
            try await until { launching.notice?.title == "Accepted, waiting" }
            screen.cancel()
            await screen.value
            #expect(launching.notice?.code == "pending" && launching.notice?.nextStep.contains("goes on") == true)
            let sent = try #require(phone.sample.device?.sent)
            await sent.load()
            #expect(sent.rows.contains { $0.canCancel && $0.notice.title == "Accepted, waiting" }, "\(sent.rows)")
            let watch = Task { await sent.watch() }
            await tv.sample.resume()
            try await until { sent.rows.contains { $0.notice.title == "Opened on TV" } }
            watch.cancel()
            #expect(tv.opened == ["https://films.example/42"])
        }
    }

    @Test func sentLaunchCanBeCancelledLater() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let launching = try await phone.launching(on: "TV", "https://films.example/42")
            await tv.sample.suspend()
            let screen = Task { await launching.launch() }
            try await until { launching.notice?.title == "Accepted, waiting" }
            screen.cancel()
            await screen.value
            // The sample ends, and starts again.
            await phone.sample.end()
            let again = bench.phone("Phone", in: phone.directory)
            await again.sample.start()
            let sent = try #require(again.sample.device?.sent)
            await sent.load()
            let row = try #require(sent.rows.first { $0.canCancel })
            await sent.cancel(row.id)
            let watch = Task { await sent.watch() }
            try await until { sent.rows.contains { $0.notice.title == "Cancelled, was not opened" } }
            watch.cancel()
            await tv.sample.resume()
            try await until { tv.sample.device?.connection.kind == .success }
            #expect(tv.opened.isEmpty)
        }
    }

    @Test func deviceThatDisappearsIsNoTarget() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let launching = try await phone.launching(on: "TV", "https://films.example/42")
            let service = try #require(phone.sample.device?.service(launching.target))
            try await phone.watching { list in
                try await until { list.rows.contains { $0.name == "TV" } }
                await tv.sample.signOut()
                #expect(tv.sample.notice?.title == "Signed out" && tv.sample.device == nil)
                try await until { list.rows.isEmpty && list.isComplete }
                #expect(list.placeholder == "No other device yet. Sign in on a second one.")
            }
            await launching.launch()
            #expect(launching.notice?.title == "TV is gone" && launching.notice?.nextStep.contains("another device") == true)
            await service.connect()
            #expect(service.state.kind == .problem && !service.isConnected)
            #expect(tv.opened.isEmpty)
        }
    }

    @Test func launchWithoutARelayIsStored() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let launching = try await phone.launching(on: "TV", "https://films.example/42")
            _ = try await bench.relayd.stop()
            let device = try #require(phone.sample.device)
            try await until { device.connection.kind != .success }
            #expect(!device.connection.reason.isEmpty)
            async let launch: Void = launching.launch()
            try await until { launching.notice?.title == "Stored on this device" }
            _ = try await bench.relayd.start()
            await phone.sample.device?.platform.networkChanged()
            await tv.sample.device?.platform.networkChanged()
            await launch
            #expect(launching.notice?.title == "Opened on TV")
        }
    }

    @Test func filtersNarrowTheList() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            _ = try await phone.row("TV")
            let list = try #require(phone.sample.device?.devices)
            @MainActor func names(_ filters: DeviceFilters) async throws -> [String] {
                list.filters = filters
                var names: [String] = []
                try await phone.watching { list in
                    try await until { list.isComplete }
                    names = list.rows.map(\.name)
                }
                return names
            }
            #expect(try await names(DeviceFilters()) == ["TV"])
            #expect(try await names(DeviceFilters(showsThisDevice: true)) == ["Phone", "TV"])
            let kind = DeviceDescription.thisDevice.kind
            let platform = DeviceDescription.thisDevice.platform
            #expect(try await names(DeviceFilters(kind: kind, platform: platform, way: .relay, isAvailableOnly: true)) == ["TV"])
            #expect(try await names(DeviceFilters(kind: .holographic)) == [])
            #expect(list.placeholder == "No device passes the filters.")
            #expect(try await names(DeviceFilters(platform: .windows)) == [])
            #expect(try await names(DeviceFilters(way: .network)) == [])
        }
    }
}
