// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol

/// The options of a process that is a device.
struct Member: ParsableArguments {
    static let app = "org.example.player"
    static let service = AppServiceInfo(name: "echo", appID: app)

    @Option var relay: String
    @Option var relayID: String
    @Option var directory: String
    /// A join link, for the first start only.
    @Option var join: String?
    /// Whether the device uses the local network.
    @Flag var nearby = false

    var account: ConnectedDevicesAccount { ConnectedDevicesAccount(id: "me") }

    func platform() throws -> ConnectedDevicesPlatform {
        guard let relay = URL(string: relay), let relayID = RelayID(relayID) else { throw ValidationError("no relay") }
        let directory = URL(filePath: directory)
        var settings = ConnectedDevicesPlatformSettings(
            relay: relay,
            relayID: relayID,
            storageDirectory: directory.appending(path: "storage"),
            device: DeviceDescription(name: directory.lastPathComponent, kind: .desktop, platform: .linux)
        )
        settings.nearby.mode = nearby ? .known : .off
        settings.systemKey = SystemKeyFile(path: directory.appending(path: "system.key").path)
        return ConnectedDevicesPlatform(settings: settings, accessTokens: JoinLinkAccessTokenProvider(clientID: "org.example.torture"))
    }

    /// Starts the platform, and adds the account at the first start.
    /// - Returns: Its endpoint.
    func start(_ platform: ConnectedDevicesPlatform) async throws -> String {
        try await platform.start()
        if platform.accounts.endpoint(of: account) == nil, let join {
            _ = try await platform.accounts.add(account, joining: JoinLink(parsing: join, plainHTTP: .allowed))
        }
        return "\(try platform.accounts.endpoint(of: account).unwrapped)"
    }
}

extension ConnectedDevicesPlatform {
    /// Approves all devices of the account, as a person does: only known devices have direct paths.
    func approveAll(of account: ConnectedDevicesAccount) async throws {
        for await new in newEndpoints(for: account) {
            guard !new.isEmpty else { return }
            for endpoint in new { try await approve(endpoint) }
        }
    }
}

/// A process's connection to the driver over standard input and output.
actor Driver {
    /// The driver's orders, without acknowledgements of reports.
    nonisolated let orders: AsyncStream<Order>
    private let tellOrder: AsyncStream<Order>.Continuation
    private var last = 0
    private var waiting: [Int: CheckedContinuation<Void, Never>] = [:]

    init() {
        (orders, tellOrder) = AsyncStream.makeStream()
        signal(SIGPIPE, SIG_IGN)
    }

    nonisolated func listen() {
        Line.read(.standardInput, as: Order.self) { order in
            switch order {
            case .goOn(let number): Task { await self.goOn(number) }
            case let order?: self.tellOrder.yield(order)
            // The driver has ended.
            case nil: exit(1)
            }
        }
    }

    /// Sends a report, and waits until the driver has recorded it.
    func tell(_ report: Report) async {
        last += 1
        let number = last
        await withCheckedContinuation { continuation in
            waiting[number] = continuation
            do {
                try FileHandle.standardOutput.write(contentsOf: Line.encode(NumberedReport(number: number, report: report)))
            } catch {
                exit(1)
            }
        }
    }

    private func goOn(_ number: Int) { waiting.removeValue(forKey: number)?.resume() }
}

extension Optional {
    struct Missing: Error {}

    var unwrapped: Wrapped {
        get throws {
            guard let self else { throw Missing() }
            return self
        }
    }
}
