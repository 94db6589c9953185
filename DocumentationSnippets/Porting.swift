// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

// The code of docs/porting.md.

/// An app's own sign-in.
protocol CompanySignIn: Sendable {
    func token(audience: URL, scopes: [String]) async throws -> String
    func forgetToken() async
}

// snippet: own-tokens
struct CompanyTokens: AccessTokenProvider {
    let company: any CompanySignIn  // the app's own sign-in

    func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        do {
            return AccessToken(try await company.token(audience: request.relay, scopes: request.scopes.map(\.rawValue)))
        } catch is URLError {
            throw AccessTokenError(.networkNotAvailable, message: "the company's sign-in cannot be reached")  // asked again later
        } catch {
            throw AccessTokenError(.signInRequired, message: "sign in again")
        }
    }

    func accessTokenInvalidated(_ request: AccessTokenRequest) async { await company.forgetToken() }
}
// end

func launch(
    _ film: URL,
    on livingRoom: RemoteSystem,
    _ platform: ConnectedDevicesPlatform,
    show: @escaping @Sendable (RemoteLaunchError.Code) -> Void
) {
    // snippet: typed-errors-in-a-task
    Task {
        do throws(RemoteLaunchError) {
            _ = try await platform.launch(film, on: .init(livingRoom))
        } catch {
            show(error.code)  // without `throws(RemoteLaunchError)` the error has no code here
        }
    }
    // end
}
