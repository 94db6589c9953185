// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayServer

@Suite struct PushContactTests {
    @Test(arguments: [
        "mailto:me@example.org", "MAILTO:me+push@sub.example.org", "https://example.org", "https://example.org/contact?a=b#c",
        "HTTPS://Example.org:8443/x", "mailto:me@xn--bcher-kva.example",
    ])
    func publicAddressIsTaken(_ text: String) { #expect(PushContact.isPublic(text)) }

    /// Apple answers 403 to these.
    @Test(arguments: [
        "", "me@example.org", "mailto:", "mailto:me", "mailto:@example.org", "mailto:me@", "mailto:x@localhost", "mailto:x@mail.localhost",
        "mailto:x@host", "mailto:x@printer.local", "mailto:x@nas.home", "mailto:x@1.168.192.in-addr.arpa", "mailto:x@router.home.arpa",
        "mailto:a@b@example.org", "mailto:me@example.org?subject=x", "mailto:me@example..org", "mailto:me@exam ple.org",
        "mailto:me@example.org\u{0}", "mailto:me@[192.0.2.1]", "mailto:me@192.0.2.1", "http://example.org", "https://", "https:///x",
        "https://localhost", "https://192.0.2.1/", "https://[2001:db8::1]/", "https://me@example.org/", "https://example.org:0/",
        "https://example.org:99999/", "https://relay.internal", "https://example.org\n",
    ])
    func otherAddressIsRefused(_ text: String) { #expect(!PushContact.isPublic(text)) }
}
