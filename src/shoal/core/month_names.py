"""Names of months and of days of the week, as pages in some thirty languages write them, in small letters.

Of a text nobody knows the language. So all names are in one table, and a name counts only beside a number.
"""

from __future__ import annotations

LANGUAGES = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "nb", "fi", "pl", "cs", "sk", "hu", "ro", "ru", "uk", "bg"),
    *("el", "tr", "hr", "sl", "lt", "lv", "et", "ca"),
)
"""Those that the names are of; they are CLDR's."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MONTHS = _names(
    """
    abril agost agosto août april aprile aprilie aprill apríl apríla aprīlis aralık august augusta augusti
    augusts augustus augusztus avgust avril ağustos balandis balandžio birželio birželis březen března czerwca
    czerwiec december decembra decembrie decembris desember desembre detsember dezember dezembro dicembre
    diciembre duben dubna décembre ekim elokuu elokuuta enero eylül febbraio febrer febrero februar februari
    februarie february február februára februāris fevereiro février gegužė gegužės gener gennaio giugno grudnia
    grudzień gruodis gruodžio haziran heinäkuu heinäkuuta helmikuu helmikuuta huhtikuu huhtikuuta ianuarie iulie
    iunie jaanuar janeiro januar januari january január januára janvier janvāris joulukuu joulukuuta juillet
    juin julho juli julij julio juliol july june junho juni junij junio juny juuli juuni júl júla július jún
    júna június jūlijs jūnijs kasım kesäkuu kesäkuuta kolovoz kolovoza kovas kovo květen května kwiecień
    kwietnia lapkritis lapkričio leden ledna liepa liepos lipanj lipca lipiec lipnja listopad listopada
    listopadu lokakuu lokakuuta luglio lutego luty maaliskuu maaliskuuta maart maggio mai maig maijs maio maj
    maja marca march marec marraskuu marraskuuta mars mart martie marts marzec marzo març março may mayo mayıs
    mei máj mája május március märts märz nisan noiembrie november novembra novembre novembris novembro
    noviembre ocak october octobre octombrie octubre oktober oktobris oktoober október októbra ottobre outubro
    ožujak ožujka październik października prosinac prosinca prosince prosinec rugpjūtis rugpjūčio rugsėjis
    rugsėjo rujan rujna sausio sausis september septembra septembre septembrie septembris septiembre setembre
    setembro settembre sierpień sierpnia siječanj siječnja spalio spalis srpanj srpen srpna srpnja studeni
    studenoga styczeń stycznia svibanj svibnja syyskuu syyskuuta szeptember tammikuu tammikuuta temmuz toukokuu
    toukokuuta travanj travnja vasario vasaris veebruar veljača veljače wrzesień września září április únor
    února červen července červenec června říjen října şubat απρίλιος απριλίου αυγούστου αύγουστος δεκέμβριος
    δεκεμβρίου ιανουάριος ιανουαρίου ιουλίου ιουνίου ιούλιος ιούνιος μάιος μάρτιος μαΐου μαρτίου νοέμβριος
    νοεμβρίου οκτωβρίου οκτώβριος σεπτέμβριος σεπτεμβρίου φεβρουάριος φεβρουαρίου август августа апрель апреля
    април березень березня вересень вересня грудень грудня декабрь декабря декември жовтень жовтня июль июля
    июнь июня квітень квітня липень липня листопад листопада лютий лютого май март марта мая ноември ноябрь
    ноября октомври октябрь октября сентябрь сентября септември серпень серпня січень січня травень травня
    февраль февраля февруари червень червня юли юни январь января януари
    """
)
"""In full, also as they stand behind the number of a day."""
SHORT_MONTHS = _names(
    """
    abr ago apr ara aug avg avr ağu bal birž bře cze dec des dets dez dic dub déc eki elo ene eyl feb febr fev
    févr geg gen giu gru gruod haz heinä helmi huhti ian iul iun jaan jan janv joulu juil jul jun jūl jūn kas
    kesä kol kov kvě kwi lapkr led liep lip lis loka lug lut maalis mag mar marras mrt márc mär nis nov oca oct
    okt ott out ožu paź pro rugp rugs ruj saus sep sept set sie sij spal srp stu sty svi syys szept tammi tem
    touko tra vas veebr velj wrz zář ápr úno čvc čvn říj şub απρ αυγ αύγ δεκ ιαν ιουλ ιουν ιούλ ιούν μάι μάρ μαΐ
    μαρ νοέ νοε οκτ σεπ φεβ авг апр бер вер груд дек жовт июл июн квіт лип лист лют мар ное нояб окт сент сеп
    серп січ трав фев февр черв янв яну
    """
)
"""Abbreviated, where that is no name in full."""
DAYS = _names(
    """
    antradienis ceturtd ceturtdiena cmt csütörtök cum cuma cumartesi czw czwartek dienstag dijous dilluns dim
    dimanche dimarts dimecres dinsdag dissabte diumenge divendres dom domenica domingo donderdag donnerstag dum
    duminică esmaspäev fre fredag freitag fri friday gio giovedì hétfő jeu jeudi joi jue jueves kedd keskiviikko
    keskiviikkona ketvirtadienis kolmapäev lauantai lauantaina laupäev lun lundi lunedì lunes luni lör lördag
    lør lørdag maanantai maanantaina maandag man mandag mar mardi martedì martes marți mer mercoledì mercredi
    mie miercuri mittwoch mié miércoles mon monday montag mån måndag ned nedelja nedeľa nedjelja neděle
    neljapäev niedz niedziela ons onsdag otrd otrdiena paz pazar pazartesi penktadienis per perjantai
    perjantaina perşembe pet petak petek piatok piektd piektdiena pirmadienis pirmd pirmdiena piątek pon
    pondelok pondělí ponedeljek ponedjeljak poniedziałek pzt pátek péntek pühapäev qua quarta qui quinta reede
    sab sabato sal salı sam samedi samstag sat saturday seg segunda sekmadienis sestd sestdiena sex sexta sob
    sobota sonntag sre sreda sri srijeda streda středa sub subota sun sunday sunnuntai svētd svētdiena sze
    szerda szo szombat sáb sábado sâm sâmbătă sön söndag søn søndag teisipäev ter terça thu thursday tiistai
    tiistaina tir tirs tirsdag tis tisdag tor torek tors torsdag torstai torstaina trečiadienis trešd trešdiena
    tue tuesday uto utorak utorok vasárnap ven vendredi venerdì vie viernes vin vineri vrijdag wed wednesday
    woensdag wtorek zaterdag zondag çar çarşamba úterý čet četrtek četvrtak čtvrtek środa šeštadienis štvrtok
    δευ δευτέρα κυρ κυριακή πέμ πέμπτη παρ παρασκευή σάβ σάββατο τετ τετάρτη τρί τρίτη воскресенье вторник
    вівторок неделя неділя пʼятниця петък понеделник понедельник понеділок пятница середа среда сряда суббота
    субота събота четвер четверг четвъртък
    """
)
"""In full and abbreviated."""
