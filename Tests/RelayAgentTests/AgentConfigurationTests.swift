// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

/// Each setting has its effect, and what is not exactly a setting is refused: the settings decide what others may run here.
@Suite struct AgentConfigurationTests {
    private func id() throws -> String { "\(SystemID(digest: Digest256(hashing: Array("a device".utf8))))" }

    @Test func defaultsOpenTheWebOnlyAndRunNothing() {
        let settings = AgentConfiguration()
        #expect(settings.open.schemes == ["http", "https"] && settings.open.ask == [] && settings.newDevices == .webPages)
        #expect(settings.files == nil && settings.services.isEmpty && settings.environment.isEmpty)
        #expect(settings.open.command == nil && settings.open.prompt == nil)
        #expect((settings.open.programs, settings.open.launchesPerMinute, settings.open.newLaunchesPerMinute) == (16, 60, 6))
    }

    @Test func everySettingHasItsEffect() throws {
        let id = try id()
        let settings = try SettingsFile.settings(
            """
            name: Study
            open:
              schemes: [HTTPS, x-film]
              ask: [tel]
              command: [firefox, "{uri}"]
              prompt: [zenity, "--text={uri}"]
              programs: 3
              launchesPerMinute: 5
              newLaunchesPerMinute: 0
            newDevices: nothing
            files: {folder: /tmp, devices: [\(id)]}
            services:
              one: {command: [~/one, a], timeout: 0.5, devices: [\(id)]}
              two: {command: [two], mode: lines}
            environment: [MY_SETTING]
            """
        )
        #expect(settings.name == "Study" && settings.newDevices == .nothing && settings.environment == ["MY_SETTING"])
        #expect(settings.open.schemes == ["https", "x-film"] && settings.open.ask == ["tel"])
        #expect(settings.open.command?.arguments == ["firefox", "{uri}"] && settings.open.prompt?.arguments == ["zenity", "--text={uri}"])
        #expect((settings.open.programs, settings.open.launchesPerMinute, settings.open.newLaunchesPerMinute) == (3, 5, 0))
        #expect(settings.files?.folder == "/tmp" && settings.files?.devices?.map(\.description) == [id])
        let (one, two) = (try #require(settings.services["one"]), try #require(settings.services["two"]))
        #expect(one.command.arguments[0].hasSuffix("/one") && !one.command.arguments[0].hasPrefix("~"))
        #expect((one.mode, one.timeout, one.devices?.count) == (.once, .milliseconds(500), 1))
        #expect(two.mode == .lines && two.timeout == .seconds(30) && two.devices == nil)
    }

    @Test func networkIsUsedAsTheSettingsSay() throws {
        let text = "nearby: {mode: visible, interfaces: [eth0], reach: any, trustDays: 3}"
        let nearby = try SettingsFile.settings(text).nearby
        var settings = NearbySettings()
        nearby.apply(to: &settings, environment: [:])
        #expect(settings.mode == .visible && settings.interfaces == ["eth0"] && settings.reach == .any && settings.trustDays == 3)
        // The environment of one start comes first, and what is not set stays.
        settings.mode = .off
        nearby.apply(to: &settings, environment: ["DEVICE_RELAY_NEARBY": "off"])
        #expect(settings.mode == .off)
        AgentConfiguration.Nearby().apply(to: &settings, environment: [:])
        #expect(settings.mode == .off && settings.reach == .any)
        for wrong in ["{mode: all}", "{reach: far}", "{trustDays: 0}", "{interfaces: [\"\"]}", "{more: 1}", ""] {
            #expect(throws: AgentError.self, "\(wrong)") { try SettingsFile.settings("nearby: \(wrong)") }
        }
    }

    /// What is left of a list whose entries are all commented out must not mean the default, which permits more.
    @Test(arguments: [
        "name:", "open:", "open:\n  schemes:\n    # - https\n", "open: {ask: null}", "open: {programs: ~}", "newDevices:", "files:",
        "files: {folder: /tmp, devices: }", "services: {one: {command: [a], devices: null}}", "services:", "environment:",
    ]) func settingWithoutAValueIsRefused(text: String) {
        #expect(throws: AgentError.self) { try SettingsFile.settings(text) }
    }

    /// An empty list of devices means none, not all.
    @Test func emptyListOfDevicesMeansNone() throws {
        #expect(try SettingsFile.settings("files: {folder: /tmp, devices: []}").files?.devices == [])
        #expect(try SettingsFile.settings("services: {one: {command: [a], devices: []}}").services["one"]?.devices == [])
    }

    @Test(arguments: [
        // Unknown settings at each level.
        "nam: x", "open: {scheme: [http]}", "files: {folder: /tmp, path: x}", "services: {one: {command: [a], args: [b]}}",
        // Schemes.
        "open: {schemes: [javascript]}", "open: {ask: [JavaScript]}", "open: {schemes: [data]}", "open: {ask: [vbscript]}",
        "open: {schemes: ['https:']}", "open: {schemes: ['']}", "open: {schemes: ['*']}", "open: {schemes: [http, HTTP]}",
        "open: {schemes: [http], ask: [http]}", "open: {ask: [https]}", "open: {schemes: http}", "open: {schemes: ['\u{212A}ttp']}",
        // Programs. A URI inside a longer argument could be read as code.
        "open: {command: []}", "open: {command: ['']}", "open: {command: firefox}", "open: {command: [sh, -c, 'firefox {uri}']}",
        "open: {command: [sh, -c, \"firefox '{uri}'\"]}", "open: {prompt: [sh, -c, '{uri};x']}", "open: {command: [a, '{uri}={uri}x']}",
        "open: {command: [\"a\\0b\"]}", "services: {one: {command: [\"a\\0\"]}}",
        // Numbers.
        "open: {programs: 0}", "open: {programs: 1001}", "open: {programs: -1}", "open: {programs: many}", "open: {launchesPerMinute: 0}",
        "open: {launchesPerMinute: 6001}", "open: {newLaunchesPerMinute: -1}", "open: {programs: 99999999999999999999}",
        "services: {one: {command: [a], timeout: 0}}", "services: {one: {command: [a], timeout: 3601}}",
        "services: {one: {command: [a], timeout: .nan}}", "services: {one: {command: [a], timeout: -1}}",
        // Choices.
        "newDevices: all", "newDevices: true", "newDevices: ''", "services: {one: {command: [a], mode: always}}",
        // Devices: names prove nothing, and a prefix is no id.
        "files: {folder: /tmp, devices: [PC]}", "files: {folder: /tmp, devices: [t3vfq2bh]}", "files: {folder: /tmp, devices: all}",
        "services: {one: {command: [a], devices: ['*']}}", "files: {folder: /tmp, devices: PC}",
        // Folders.
        "files: {folder: tmp}", "files: {folder: ''}", "files: {folder: /no/such/folder}", "files: {folder: /dev/null}", "files: {}",
        "files: 1",
        // Services.
        "services: {ping: {command: [a]}}", "services: {echo: {command: [a]}}", "services: {files: {command: [a]}}",
        "services: {'a b': {command: [a]}}", "services: {'': {command: [a]}}", "services: {one: {}}", "services: {one: [a]}",
        // Variables.
        "environment: ['']", "environment: ['A=B']", "environment: A",
    ]) func whatIsNotExactlyASettingIsRefused(text: String) throws {
        #expect(try SettingsFile.problem(text) != nil)
    }

    @Test func numberOfSchemesAndServicesIsLimited() throws {
        let schemes = (1...32).map { "x\($0)" }.joined(separator: ", ")
        #expect(try SettingsFile.problem("open: {schemes: [\(schemes)], ask: []}") == nil)
        #expect(try SettingsFile.problem("open: {schemes: [\(schemes)], ask: [y]}") != nil)
        let services = (1...27).map { "s\($0): {command: [a]}" }
        #expect(try SettingsFile.problem("services: {\(services.joined(separator: ", "))}") == nil)
        #expect(try SettingsFile.problem("services: {\((services + ["t: {command: [a]}"]).joined(separator: ", "))}") != nil)
    }

    @Test func programsThatAreMissingAreNamed() throws {
        let settings = try SettingsFile.settings("open: {command: [/no/opener], prompt: [sh]}\nservices: {one: {command: [/no/service]}}")
        #expect(settings.missingPrograms == ["/no/opener", "/no/service"])
    }
}
