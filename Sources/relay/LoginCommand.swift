// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: localized("Sign this machine in to your account at a relay: in a browser, with a code, or with your password."),
        discussion: localized(
            """
            Without an address it signs in again where the login has ended.

            --password asks for name and password here. This is the default at a terminal for an address with #relay=ID: such a relay uses its own \
            key, which no browser trusts. For other relays the default is a browser if there is a display and a terminal, and else a code to \
            enter on another device. A passkey, or another identity provider, needs a browser. A script gives --user, and writes the password to \
            standard input.

            A browser or a code can be used by another person than you. So the command names the account and asks, before this device is in it. \
            A script that uses them needs --yes.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            localized("The relay's address, such as https://relay.example, or https://HOST:PORT/#relay=ID for one with its own key."),
            valueName: "relay-url"
        )
    ) var relay: String?
    @Option(
        help: ArgumentHelp(localized("The identity provider, of those that the relay accepts. Default: the relay's own."), valueName: "url")
    )
    var issuer: String?
    @Option(help: ArgumentHelp(localized("The client id that this program has at the provider, if it needs one."), valueName: "id"))
    var clientID: String?
    @OptionGroup var provider: ProviderOptions
    @Flag(help: .text("Print a code to enter in a browser on any device.")) var device = false
    @Flag(help: .text("Open a browser on this machine.")) var browser = false
    @Flag(help: .text("Ask for name and password at this terminal.")) var password = false
    @Option(help: .text("The name of your account at the relay. Implies --password.")) var user: String?
    @Option(help: .text("The device's name on your other devices. Default: the host name.")) var name: String?
    @Flag(help: .text("Accept plain HTTP to another machine. Others on the network can then read the traffic.")) var allowHttp = false
    @OptionGroup var confirmation: ConfirmationOption

    @Option(
        help: ArgumentHelp(
            localized("A PEM file with the authorities for the relay's certificate, for a relay with a private authority."),
            valueName: "file"
        ),
        completion: .file()
    )
    var caFile: String?

    func validate() throws {
        try provider.validate(device: device, browser: browser, issuer: issuer, clientID: clientID)
        if password || user != nil {
            if device || browser { throw ValidationError("--device, --browser and --password exclude each other.") }
            if issuer != nil || clientID != nil {
                throw ValidationError("--password is for the relay's own accounts; an identity provider needs --browser or --device.")
            }
        }
    }

    func run() async throws {
        let context = try common.context
        let login = Login(
            relay: relay,
            issuer: issuer,
            clientID: clientID,
            scopes: provider.scopes,
            method: provider.method(device: device, browser: browser),
            password: password || user != nil ? PasswordSignIn(user: user) : nil,
            redirectPort: provider.redirectPort,
            name: name,
            allowsPlainHTTP: allowHttp,
            caFile: caFile,
            isConfirmed: confirmation.yes
        )
        try context.console.print(try await login.run(context))
    }
}
