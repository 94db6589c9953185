// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

extension IssuerClient {
    /// The issuer's answer to the request of a device (RFC 8628 §3.2).
    struct DeviceAuthorization {
        var deviceCode: Secret<String>
        var userCode: String
        var page: URL
        var pageWithCode: URL?
        /// In seconds.
        var expiresIn: Double
        var interval: Double?
    }

    private struct DeviceAnswer: Decodable {
        var deviceCode: Secret<String>
        var userCode: String
        var verificationURI: String
        var verificationURIComplete: String?
        var expiresIn: IssuerSeconds
        var interval: IssuerSeconds?

        enum CodingKeys: String, CodingKey {
            case interval
            case deviceCode = "device_code"
            case userCode = "user_code"
            case verificationURI = "verification_uri"
            case verificationURIComplete = "verification_uri_complete"
            case expiresIn = "expires_in"
        }
    }

    /// Begins the sign-in of a device. The relay's own issuer shows the device's name and platform to the user.
    func authorizeDevice(
        at issuer: Issuer,
        clientID: String,
        _ request: AccessTokenRequest
    ) async throws(IssuerClientError) -> DeviceAuthorization {
        guard let url = issuer.deviceAuthorizationEndpoint else { throw .notOffered }
        var form = [("client_id", Secret(clientID)), ("scope", Secret(scopeParameter(for: request.scopes, at: issuer)))]
        form += resource(at: issuer)
        if issuer.isRelaysOwn, let device = request.device {
            form += [("device_name", Secret(device.name)), ("device_platform", Secret("\(device.platform)"))]
        }
        let answer: DeviceAnswer = try content(try await post(url, of: issuer, form: form), of: issuer.foreignName)
        let name = issuer.foreignName
        guard (1...4_096).contains(answer.deviceCode.exposed.utf8.count) else {
            throw .malformed("device_code has no valid value", issuer: name)
        }
        let code = answer.userCode
        guard code.utf8.count <= 256, (1...64).contains(code.count), DisplayText.isPlain(code), DisplayText.isVisible(code) else {
            throw .malformed("user_code has no valid value", issuer: name)
        }
        guard let page = ServerURL.page(answer.verificationURI, namedBy: address) else {
            throw .malformed("verification_uri is not an https URL of another machine", issuer: name)
        }
        return DeviceAuthorization(
            deviceCode: answer.deviceCode,
            userCode: code,
            page: page,
            pageWithCode: answer.verificationURIComplete.flatMap { ServerURL.page($0, namedBy: address) },
            expiresIn: answer.expiresIn.value,
            interval: answer.interval?.value
        )
    }

    /// Asks for the tokens of a device.
    func redeem(
        device code: Secret<String>,
        at issuer: Issuer,
        clientID: String,
        into store: some TokenReceiver
    ) async throws -> StoredTokens {
        try await tokens(
            from: issuer,
            form: [("grant_type", Secret("urn:ietf:params:oauth:grant-type:device_code")), ("device_code", code)],
            clientID: clientID,
            into: store
        )
    }
}
