// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import AuthenticationServices
import UIKit

/// The issuer's page in the system's sheet. The issuer leads the browser back to an address on this device, where the SDK waits
/// (`BrowserAccessTokenProvider`), so the sheet has no callback scheme. It closes when the SDK cancels the task, after the sign-in.
@MainActor final class SignInSheet: NSObject, ASWebAuthenticationPresentationContextProviding {
    private var session: ASWebAuthenticationSession?
    private var continuation: CheckedContinuation<Void, any Error>?

    /// Shows the page until it is closed. If the person closes it, the sign-in ends.
    static func show(_ url: URL) async throws {
        let sheet = SignInSheet()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { sheet.begin(url, $0) }
        } onCancel: {
            Task { @MainActor in sheet.end() }  // Owner: it ends at once
        }
    }

    private func begin(_ url: URL, _ continuation: CheckedContinuation<Void, any Error>) {
        guard !Task.isCancelled else { return continuation.resume(throwing: CancellationError()) }
        self.continuation = continuation
        let session = ASWebAuthenticationSession(url: url, callbackURLScheme: nil) { _, _ in
            Task { @MainActor [weak self] in self?.end() }  // Owner: it ends at once
        }
        session.presentationContextProvider = self
        // A shared browser would keep the person signed in at the issuer for the next person of this device.
        session.prefersEphemeralWebBrowserSession = true
        self.session = session
        if !session.start() { end() }
    }

    private func end() {
        let waiting = continuation
        continuation = nil
        session?.cancel()
        session = nil
        waiting?.resume(throwing: CancellationError())
    }

    func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor {
        let scenes = UIApplication.shared.connectedScenes.compactMap { $0 as? UIWindowScene }
        return scenes.flatMap(\.windows).first { $0.isKeyWindow } ?? ASPresentationAnchor()
    }
}
#endif
