// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

@Suite struct HTTPDateTests {
    @Test func textIsThatOfTheCalendar() throws {
        #expect(HTTPDate.text(second: 784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.text(second: 0) == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(HTTPDate.text(second: 951_782_400) == "Tue, 29 Feb 2000 00:00:00 GMT")
        // What the format cannot say is cut.
        #expect(HTTPDate.text(second: -1) == HTTPDate.text(second: 0))
        #expect(HTTPDate.text(second: .max) == "Fri, 31 Dec 9999 23:59:59 GMT")
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        var random = SystemRandomNumberGenerator()
        for _ in 0..<2_000 {
            let second = Int64.random(in: 0..<253_402_300_800, using: &random)
            let text = HTTPDate.text(second: second)
            #expect(HTTPDate.parse(text) == second * 1_000, "\(second)")
            #expect(formatter.string(from: Date(timeIntervalSince1970: Double(second))) == text, "\(second)")
        }
    }
}
