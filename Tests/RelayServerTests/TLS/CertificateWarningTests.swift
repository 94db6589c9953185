// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayServer

@Suite struct CertificateWarningTests {
    /// For relay.example, *.devices.example, 192.0.2.7 and 2001:db8::7, from 2026-11-24 to 2027-02-22.
    static let pem = """
        -----BEGIN CERTIFICATE-----
        MIIBtDCCAVqgAwIBAgIUSw36HM/ZmkF/6EzBIFaZ/mxGwqQwCgYIKoZIzj0EAwIw
        DDEKMAgGA1UEAwwBeDAeFw0yNjExMjQxODAzMTNaFw0yNzAyMjIxODAzMTNaMAwx
        CjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATSpV9x4ne4eI6M
        LJVVxzTU8VUtGV0LWRPjQK21L4S0AuUEKiZHzdCkONW85m8mj1aNVz2m6dKY4ml/
        SgCTDDr4o4GZMIGWMB0GA1UdDgQWBBSJI9h1d0kega5Aj5e0zYBllK6j5DAfBgNV
        HSMEGDAWgBSJI9h1d0kega5Aj5e0zYBllK6j5DAPBgNVHRMBAf8EBTADAQH/MEMG
        A1UdEQQ8MDqCDXJlbGF5LmV4YW1wbGWCESouZGV2aWNlcy5leGFtcGxlhwTAAAIH
        hxAgAQ24AAAAAAAAAAAAAAAHMAoGCCqGSM49BAMCA0gAMEUCIQDGqChI5bBhwebl
        mzTlVeXNPhkJZlGnyuNkwc6th4/4IgIgJZ92iLSYnv5US9PCn/O7/ynQP0BbFlx1
        5g7gmEfJbF8=
        -----END CERTIFICATE-----
        """
    static let (begin, end) = (Date(timeIntervalSince1970: 1_795_543_393), Date(timeIntervalSince1970: 1_803_319_393))

    private func problems(_ urls: String..., at date: Date = begin) throws -> [CertificateWarning] {
        CertificateWarning.found(in: Self.pem, for: try urls.map { try #require(Origin($0)) }, at: date)
    }

    @Test(arguments: [
        "https://relay.example", "https://relay.example:8443", "https://RELAY.example", "https://tv.devices.example",
        "https://192.0.2.7:8443",
        "https://[2001:db8::7]", "https://[2001:0DB8:0::07]:8443", "http://elsewhere.example",
    ])
    func nameInTheCertificateIsNoProblem(url: String) throws {
        #expect(try problems(url).isEmpty)
    }

    @Test(arguments: [
        "https://example", "https://a.relay.example", "https://devices.example", "https://a.b.devices.example", "https://192.0.2.8",
        "https://xrelay.example", "https://[2001:db8::8]",
    ])
    func nameMissingInTheCertificateIsReported(url: String) throws {
        let problem = try #require(try problems(url).first)
        guard case .otherName(let host, let names) = problem else {
            Issue.record("\(problem)")
            return
        }
        #expect(url.contains(host))
        #expect(names == ["relay.example", "*.devices.example", "192.0.2.7", "2001:db8::7"])
    }

    @Test func validityOfTheCertificateIsChecked() throws {
        #expect(try problems(at: Self.begin - 1) == [.notYetValid(Self.begin)])
        #expect(try problems(at: Self.begin).isEmpty)
        #expect(try problems(at: Self.end).isEmpty)
        #expect(try problems(at: Self.end + 1) == [.expired(Self.end)])
        #expect(try problems(at: Self.end + 1).first?.description.contains("2027-02-22T18:03:13Z") == true)
    }

    @Test func malformedCertificateGivesNoWarning() {
        for text in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"] {
            #expect(CertificateWarning.found(in: text, for: [], at: Self.begin).isEmpty)
        }
    }
}
