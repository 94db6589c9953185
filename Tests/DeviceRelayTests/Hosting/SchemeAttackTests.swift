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
            of: nil,
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

    /// Without a setting, new devices may launch web pages; the app decides otherwise.
    @Test func appDecidesWhatNewDevicesMayDo() throws {
        #expect(app.newCallers == .webPages)
        var app = app
        app.services = [AppService("remote-control") { _, _ in }]
        let message = CommandBody.message(service: "remote-control", [:])
        func isAllowed(_ check: CommandCheck) -> Bool { check == .valid }
        let cases: [(NewCallerAccess, web: Bool, film: Bool, message: Bool)] = [
            (.nothing, false, false, false), (.webPages, true, false, false), (.everything, true, true, true),
        ]
        for (access, web, film, isMessage) in cases {
            app.newCallers = access
            #expect(isAllowed(try check("https://films.example/", isNew: true, to: app)) == web)
            #expect(isAllowed(try check("film:1", isNew: true, to: app)) == film)
            #expect(isAllowed(AccessPolicy.check(message, from: sender, nil, of: nil, isNew: true, to: app)) == isMessage)
            // Undeclared schemes stay unsupported, and known devices have everything.
            #expect(try check("file:///etc/passwd", isNew: true, to: app) == .refused(.unsupported))
            #expect(isAllowed(try check("film:1", isNew: false, to: app)))
            #expect(isAllowed(AccessPolicy.check(message, from: sender, nil, of: nil, isNew: false, to: app)))
        }
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
