// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

/// What a provider needs: its scopes, and how a browser comes back from it.
struct ProviderOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            localized(
                "A scope of the provider's API for the relay, instead of the relay's own scopes; may be repeated. The requests then name no resource (RFC 8707), which Microsoft Entra needs."
            ),
            valueName: "scope"
        )
    )
    var scope: [String] = []

    @Option(
        help: ArgumentHelp(
            localized("The port that the browser comes back to, for a provider where http://127.0.0.1:PORT/signed-in is registered."),
            valueName: "port"
        )
    )
    var redirectPort: UInt16?

    /// One option may hold several.
    var scopes: [String] { scope.flatMap { $0.split(separator: " ").map(String.init) } }

    func validate(device: Bool, browser: Bool, issuer: String?, clientID: String?) throws {
        // RFC 6749 §3.3.
        let areValid = scopes.allSatisfy { $0.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C } }
        guard areValid, scope.isEmpty || !scopes.isEmpty else {
            throw ValidationError("--scope needs visible ASCII characters, without quotation marks and backslashes.")
        }
        if !scope.isEmpty, issuer == nil { throw ValidationError("--scope needs --issuer.") }
        if device, browser { throw ValidationError("--device and --browser exclude each other.") }
        if redirectPort != nil, device { throw ValidationError("--redirect-port is for a browser on this machine, and excludes --device.") }
        if redirectPort != nil, clientID == nil { throw ValidationError("--redirect-port needs --client-id.") }
    }

    func method(device: Bool, browser: Bool) -> UserSignIn.Method? {
        device ? .device : browser || redirectPort != nil ? .browser : nil
    }
}
