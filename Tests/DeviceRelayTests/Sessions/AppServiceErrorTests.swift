// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct AppServiceErrorTests {
    static let rejections: [SessionRejectionCode] = [
        .appNotInstalled, .appUnavailable, .appServiceUnavailable, .remoteSystemUnavailable, .remoteSystemNotSupportedByApp, .notAuthorized,
        .authenticationError, .networkNotAvailable, .disabledByPolicy, .webServiceUnavailable, .resourceLimitsExceeded, .timedOut, .unknown,
    ]

    static let failures: [SessionFailureCode] = [
        .failure, .resourceLimitsExceeded, .unknown, .remoteSystemUnavailable, .messageTooLarge, .appServiceConnectionClosed,
        .authenticationError, .networkNotAvailable, .disabledByPolicy, .webServiceUnavailable, .timedOut, .invalidMessage, .appUnavailable,
    ]

    @Test func errorCodesRoundTrip() {
        for code in Self.rejections {
            #expect(AppServiceError(SessionRejection(code, "why")).rejection == SessionRejection(code, "why"))
        }
        for code in Self.failures {
            #expect(AppServiceError(SessionFailure(code, "why")).failure == SessionFailure(code, "why"))
        }
        #expect(AppServiceError(SessionRejection(SessionRejectionCode(rawValue: 999))).code == .unknown)
        #expect(AppServiceError(SessionFailure(SessionFailureCode(rawValue: 999))).code == .unknown)
        #expect(AppServiceError(SessionRejection(.sessionEnding)).cause is SessionEnding)
    }

    @Test func relayErrorCodesAreMapped() {
        let unnamed: [ControlErrorCode] = [.malformed, ControlErrorCode(rawValue: "somethingNew")]
        for code in unnamed { #expect(AppServiceError(relay: code, message: "").code == .unknown) }
        #expect(AppServiceError(relay: .unreachable, message: "").code == .remoteSystemUnavailable)
        #expect(AppServiceError(relay: .tokenExpired, message: "").code == .authenticationError)
        let error = AppServiceError(relay: .wakeSuppressed, message: "later\u{7}", retryAfter: 1_500)
        #expect(error.code == .wakeSuppressed)
        #expect(error.retryAfter == .milliseconds(1_500))
        #expect(error.message == "the relay says: later\u{FFFD}")
    }

    @Test func everyCodeHasAMessageAndIsDocumented() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/app-services.md").standardizedFileURL
        let document = String(decoding: try Data(contentsOf: file), as: UTF8.self)
        for name in AppServiceError.Code.Name.allCases {
            #expect(!AppServiceError(AppServiceError.Code(name: name)).message.isEmpty)
            #expect(document.contains("| `\(name.rawValue)` |"), "\(name)")
        }
    }

    @Test func causeIsNotPrinted() {
        struct Secret: Error, CustomStringConvertible { let description = "hush" }
        #expect("\(AppServiceError(.failure, message: "it failed", cause: Secret()))" == "failure: it failed")
    }
}
