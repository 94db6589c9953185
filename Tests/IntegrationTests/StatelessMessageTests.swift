// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Messages that are stored for their device, and the answer to each.
@Suite(.timeLimit(.minutes(10))) struct StatelessMessageTests {
    private let photos = AppServiceInfo(name: "photos", appID: "org.example.photos")

    private func app(_ log: Log<ValueSet>) -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: photos.appID,
            services: [
                AppService("photos") { connection, caller in
                    guard caller.deviceName == "Phone" else { throw AppServiceError(.notAuthorized) }
                    try await connection.respond { request in
                        await log.add(request.message)
                        switch request.message["Type"]?.string {
                        case "fail": throw AppServiceError(.failure, message: "no film in the camera")
                        case "large": return ["Photo": .data([UInt8](repeating: 7, count: 300_000))]
                        default: return ["Echo": .valueSet(request.message)]
                        }
                    }
                },
                AppService("silent") { _, _ in },
                AppService("closed", allowedApps: ["org.example.friend"]) { _, _ in },
            ]
        )
    }

    private func fails(
        _ code: AppServiceError.Code,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> ValueSet
    ) async {
        do {
            _ = try await body()
            Issue.record("it was answered", sourceLocation: sourceLocation)
        } catch let error as AppServiceError {
            #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
        } catch {
            Issue.record(error, sourceLocation: sourceLocation)
        }
    }

    @Test func messageGetsItsAnswerFromADeviceThatWasAway() async throws {
        let home = try await TestHome()
        // The phone joins first, so that the PC knows it.
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let log = Log<ValueSet>()
        try await pc.platform.publish(app(log), for: pc.account)
        let system = try await phone.sees("PC")
        let request = RemoteSystemConnectionRequest(system)
        let message: ValueSet = ["Type": "list", "Since": .date(Date(timeIntervalSince1970: 5)), "Raw": .data([1, 2, 3])]
        #expect(try await phone.platform.sendStatelessMessage(message, to: photos, on: request) == ["Echo": .valueSet(message)])
        await fails(.failure) { try await phone.platform.sendStatelessMessage(["Type": "fail"], to: photos, on: request) }
        await fails(.failure) { try await phone.platform.sendStatelessMessage(["Type": "large"], to: photos, on: request) }
        let large: ValueSet = ["Photo": .data([UInt8](repeating: 7, count: 300_000))]
        await fails(.messageTooLarge) { try await phone.platform.sendStatelessMessage(large, to: photos, on: request) }
        for (name, code) in [
            ("silent", AppServiceError.Code.failure), ("closed", .notAuthorized), ("other", .appServiceUnavailable),
        ] {
            let service = AppServiceInfo(name: name, appID: photos.appID)
            await fails(code) { try await phone.platform.sendStatelessMessage(message, to: service, on: request) }
        }
        let elsewhere = AppServiceInfo(name: "photos", appID: "org.example.none")
        await fails(.appNotInstalled) { try await phone.platform.sendStatelessMessage(message, to: elsewhere, on: request) }
        await pc.platform.shutdown()
        let (platform, service) = (phone.platform, photos)
        async let answer = platform.sendStatelessMessage(["Type": "later"], to: service, on: request)
        try await pc.restart { try $0.host(app(log), for: pc.account) }
        #expect(try await answer["Echo"]?.valueSet == ["Type": "later"])
        #expect(await log.entries.count == 4)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func onlyKnownDevicesMaySendMessages() async throws {
        let home = try await TestHome()
        let (pc, phone) = (try await home.device("PC"), try await home.device("Phone"))
        let log = Log<ValueSet>()
        try await pc.platform.publish(app(log), for: pc.account)
        let request = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        await fails(.notAuthorized) { try await phone.platform.sendStatelessMessage(["Type": "list"], to: photos, on: request) }
        #expect(await log.entries.isEmpty)
        try await pc.confirm(phone)
        _ = try await phone.platform.sendStatelessMessage(["Type": "list"], to: photos, on: request)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
