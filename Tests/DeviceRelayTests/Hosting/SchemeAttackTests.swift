// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// A target rejects launches for schemes that its app does not declare.
@Suite struct SchemeAttackTests {
    private let app = RemoteSystemAppRegistration(
        appID: "org.example.player",
        launchHandler: LaunchHandler(schemes: ["https", "film"]) { _ in .launched }
    )
    private let sender = EndpointID(P256SigningKey().publicKey)

    private func check(_ uri: String, isNew: Bool, to app: RemoteSystemAppRegistration) throws -> CommandCheck {
        AccessPolicy.check(
            .launch(.init(uri: try LaunchURI(uri), fallbackURI: nil, preferredAppIDs: nil)),
            from: sender,
            nil,
            isNew: isNew,
            to: app
        )
    }

    @Test(arguments: ["http://films.example/", "file:///etc/passwd", "javascript:alert(1)", "films:1", "fil:1"])
    func undeclaredSchemesAreUnsupported(uri: String) throws {
        for isNew in [false, true] { #expect(try check(uri, isNew: isNew, to: app) == .refused(.unsupported)) }
    }

    @Test func appWithoutSchemesSupportsNoURI() throws {
        let none = RemoteSystemAppRegistration(appID: "org.example.none", launchHandler: LaunchHandler(schemes: []) { _ in .launched })
        #expect(try check("https://films.example/", isNew: false, to: none) == .refused(.unsupported))
    }

    @Test func newDeviceMayLaunchWebPagesOnly() throws {
        #expect(try check("HTTPS://films.example/", isNew: true, to: app) == .valid)
        #expect(try check("film:1", isNew: false, to: app) == .valid)
        guard case .refused(.declined(let reason)) = try check("film:1", isNew: true, to: app) else {
            Issue.record("it was not declined")
            return
        }
        #expect(reason.contains("\(sender)"))
    }
}
